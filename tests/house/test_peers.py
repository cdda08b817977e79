"""The comparison with other planners: the search that it does for them, what it reads of them, and what it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.peers.answers import (
    FEWEST_REPLICAS,
    MOST_REPLICAS,
    PeerAnswer,
    PeerSimulation,
    aggregated_replicas,
    least_pool,
    sized,
)
from bench.peers.environments import ROOT, Environment, PeerUnavailableError
from bench.peers.question import Question
from bench.peers.report import SAME_QUESTION, SAME_ROWS, PeerRun, between_markers, cheapest, markdown, markers
from hypothesis import given
from hypothesis import strategies as st

QUESTION = Question()
OURS = PeerAnswer(tool="Ullage, `size`", version="0.1.0", answer="8 replicas", replicas=8, cpu_s=9.0, remark="bursts")
PEER = PeerAnswer(tool="Peer", version="2", answer="5 replicas", replicas=5, cpu_s=1.0, remark="means")
UNITS = PeerAnswer(tool="Units", version="3", answer="12 units", replicas=None, cpu_s=0.1, remark="another question")


def simulated(replicas: int, *, needed: int) -> PeerSimulation:
    """A pool that meets the TPOT limit from `needed` replicas up."""
    return PeerSimulation(
        tool="made up", version="1", replicas=replicas, requests=1, cpu_s=1.0, ttft_p50_s=0.1, ttft_p95_s=0.2,
        tpot_p50_s=0.01, tpot_p95_s=QUESTION.tpot_p95_s * (1 if replicas >= needed else 2),
    )  # fmt: skip


@given(needed=st.integers(FEWEST_REPLICAS, MOST_REPLICAS))
def test_the_least_pool_is_found_and_all_its_work_is_counted(needed: int) -> None:
    found, cpu_s, tried = least_pool(lambda replicas: simulated(replicas, needed=needed), QUESTION)
    assert found.replicas == needed
    assert cpu_s == tried <= 5


def test_a_peer_that_no_pool_satisfies_gives_a_reason_and_no_number() -> None:
    with pytest.raises(PeerUnavailableError, match="no pool of up to 12"):
        least_pool(lambda replicas: simulated(replicas, needed=99), QUESTION)


def test_the_row_of_the_questions_parallelism_is_read() -> None:
    head = "agg Top Configurations: (Ranked by total_gpus_needed)\n"
    four = "|  1   |   vllm  | 1044.85 | 560 (=112x5) |    12 (12=3x4)    |    3     |  tp4pp1  | 208 |\n"
    two = "|  2   |   vllm  | 1126.36 | 560 (=112x5) |    10 (10=5x2)    |    5     |  tp2pp1  | 112 |\n"
    disaggregated = "disagg Top Configurations:\n|  1  | vllm | 768 (=256x3) | 12 (12=3x4) |  tp2pp1  |\n"
    assert aggregated_replicas(disaggregated + head + four + two, 2) == 5
    assert aggregated_replicas(head + four + two + disaggregated, 2) == 5
    with pytest.raises(PeerUnavailableError, match="none of 2 devices"):
        aggregated_replicas(disaggregated + head + four, 2)


def test_our_own_answer_is_read_at_both_step_bases() -> None:
    assert sized(
        "15 replicas of m on d; decided.\nAt conservative ... At\nnominal step times 8 replicas would do."
    ) == (
        15,
        8,
    )
    assert sized("1 replica of m on d; decided.\n") == (1, 1)


def test_a_peer_that_is_faster_is_named_and_another_question_does_not_count() -> None:
    assert cheapest([OURS, PEER, UNITS]).endswith("less CPU time than Ullage's `size` (9.0 s): Peer (1.0 s).")
    assert cheapest([replace(OURS, cpu_s=0.5), PEER, UNITS]).startswith("Ullage's `size` took the least CPU time")


def test_the_tables_hold_every_answer_version_and_reason() -> None:
    run = PeerRun(
        date="2026-11-16", question=QUESTION, answers=[OURS, UNITS, PEER],
        simulations=[simulated(6, needed=6), simulated(6, needed=5)], not_asked={"Gone": "not on PyPI"},
    )  # fmt: skip
    text = markdown(run)
    for each in run.answers:
        assert f"| {each.tool} | {each.version} | {each.answer} |" in text
    assert text.index("| Peer |") < text.index("| Ullage, `size` |") < text.index("| Units |")
    assert "| Gone | not on PyPI |" in text
    assert run.date in text


def test_a_python_that_is_not_here_is_the_reason() -> None:
    with pytest.raises(PeerUnavailableError, match=r"needs Python 9\.9, which is not here"):
        Environment(name="nothing", version="0", pythons=("9.9",)).make()


@pytest.mark.parametrize("part", [SAME_QUESTION, SAME_ROWS])
def test_the_page_has_its_markers_and_only_what_is_between_them_is_replaced(part: str) -> None:
    page = (ROOT / "docs/explanation/peers.md").read_text()
    begin, end = markers(part)
    written = between_markers(page, part, "anew\n")
    assert written.partition(begin)[0] == page.partition(begin)[0]
    assert written.partition(end)[2] == page.partition(end)[2]
    assert written.partition(begin)[2].partition(end)[0].strip() == "anew"
    with pytest.raises(ValueError, match="the page has no"):
        between_markers("no markers", part, "anew\n")
