"""Which prompt begins like which: read from hashes, assumed from sessions, distances and classes, kept in parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ullage.simulate.load import Prefixes, Requests
from ullage.workload.parents import kept_parents
from ullage.workload.synthetic.prefixes import hashed_parents, prefix_chains
from ullage.workload.synthetic.stream import NO_SESSION, Stream


def stream(count: int, **columns: object) -> Stream:
    zeros = np.zeros(count, np.int32)
    made = Stream(
        arrival_ps=np.arange(count, dtype=np.int64),
        prompt_tokens=zeros + 1000,
        output_tokens=zeros + 100,
        cached_tokens=zeros,
        reuse_blocks=zeros,
        class_index=zeros,
        tenant=zeros,
        session=zeros + NO_SESSION,
        class_names=("all",),
        deadlines_s=(float("inf"),),
        until_ps=count,
    )
    return replace(made, **{name: np.asarray(each, np.int32) for name, each in columns.items()})  # type: ignore[arg-type]


def test_hashes_share_what_they_begin_with_and_no_equal_text_elsewhere() -> None:
    hashes = np.array([[1, 2, 3], [1, 2, 9], [7, 2, 3], [1, 2, 9, 4], None], dtype=object)
    parent, shared = hashed_parents(np.array([1500, 1500, 1500, 2000, 10]), hashes, 512)
    assert parent.tolist() == [-1, 0, -1, 1, -1]
    assert shared.tolist() == [0, 1024, 0, 1536, 0]


def test_a_turn_begins_with_the_turn_before_it() -> None:
    chains = prefix_chains(stream(4, session=[5, 5, 6, 5], cached_tokens=[0, 800, 0, 5000]))
    assert chains.parent.tolist() == [-1, 0, -1, 1]
    assert chains.shared_tokens.tolist() == [0, 800, 0, 1100], "no more than was said and answered"


def test_without_a_distance_all_of_a_class_begin_alike() -> None:
    chains = prefix_chains(stream(3, cached_tokens=[320, 320, 0]))
    assert chains.history_tokens.size == 1
    assert chains.parent.tolist() == [0, 0, -1]
    assert chains.shared_tokens.tolist() == [320, 320, 0]


def test_a_distance_is_what_was_new_since_the_text_was_used() -> None:
    # Each request brings (1100 - 400) / 16 = 43 new blocks, so that what is 100 blocks back lies three before.
    count = 40
    chains = prefix_chains(stream(count, cached_tokens=[400] * count, reuse_blocks=[100] * count))
    first = chains.history_tokens.size
    back = np.arange(count) + first - chains.parent
    assert set(back[chains.parent >= first].tolist()) == {3}
    assert (chains.shared_tokens == 400).all()
    assert first > 0, "what the first ones repeat was said before"


def test_a_lone_request_repeats_what_was_said_before_it() -> None:
    chains = prefix_chains(stream(1, cached_tokens=[400], reuse_blocks=[np.iinfo(np.int32).max]))
    assert chains.shared_tokens.tolist() == [400]
    assert chains.history_tokens.size > 0


def test_a_parent_that_is_gone_leaves_what_it_had_itself() -> None:
    parent, shared = kept_parents(np.array([-1, 0, 1, 2]), np.array([0, 50, 80, 90]), np.array([0, 3]))
    assert (parent.tolist(), shared.tolist()) == ([-1, 0], [0, 50])
    turned = kept_parents(np.array([-1, 0]), np.array([0, 50]), np.array([1, 0]))
    assert turned[0].tolist() == [-1, -1], "a child that now comes first has nobody to follow"


def test_a_part_of_a_stream_keeps_its_chains() -> None:
    whole = stream(4, parent=[-1, 0, 1, 2], shared_tokens=[0, 500, 800, 900])
    part = whole.where(np.array([True, False, True, True]))
    assert part.parent is not None
    assert part.shared_tokens is not None
    assert (part.parent.tolist(), part.shared_tokens.tolist()) == ([-1, 0, 1], [0, 500, 900])


def test_two_loads_side_by_side_keep_their_histories_apart() -> None:
    def requests(parent: list[int], history: list[int]) -> Requests:
        count = len(parent)
        return Requests(
            prompt_tokens=np.full(count, 100),
            output_tokens=np.ones(count, np.int64),
            prefixes=Prefixes(
                parent=np.array(parent), shared_tokens=np.full(count, 64), history_tokens=np.array(history)
            ),
        )

    both = requests([0, 1], [64]).beside(requests([1, -1, 2], [70, 80])).prefixes
    assert both is not None
    assert both.history_tokens is not None
    assert both.history_tokens.tolist() == [64, 70, 80]
    assert both.parent.tolist() == [0, 3, 2, -1, 5]
