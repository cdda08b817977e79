"""A service of two models: each pool is planned for its own classes, and no name means two numbers."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from ullage import verbs
from ullage.errors import InputError, Rejection
from ullage.evidence import Assumption, Figure, Source, walk
from ullage.planning.document import Plan

pytestmark = pytest.mark.slow

AS_OF = datetime.date(2026, 11, 15)

TWO = """
version: 1
service: two models
dated: 2026-11-15
workload:
  classes:
    - {name: chat, rate: 4 req/s, longest_context: 8192, slo: {ttft_p95: 2s}, pool: small}
    - {name: coding, rate: 1 req/s, longest_context: 16384, slo: {ttft_p95: 5s}, pool: large}
pools:
  - {name: small, model: llama-3.1-8b, device: h100-sxm}
  - {name: large, model: qwen3-32b, device: h100-sxm, tensor_parallel: 2}
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    file = tmp_path_factory.mktemp("two") / "plan.yaml"
    file.write_text(TWO)
    found = verbs.plan(file, as_of=AS_OF, seed=1, quick=True)
    assert not isinstance(found, Rejection)
    return found


def test_each_pool_is_planned_for_its_own_classes(plan: Plan) -> None:
    assert [each.spec.name for each in plan.pools] == ["small", "large"]
    assert [[one.name for one in each.demand.classes] for each in plan.pools] == [["chat"], ["coding"]]
    small, large = plan.pools
    assert large.memory.model.name != small.memory.model.name
    assert [each.longest_context_tokens for each in small.demand.classes] == [8192]


def test_no_name_means_two_numbers(plan: Plan) -> None:
    by_name: dict[str, object] = {}
    roots: list[Figure | Assumption] = [*plan.spec.inputs, *plan.figures]
    for root in roots:
        for _, each in walk(root):
            if not isinstance(each, Source):
                assert by_name.setdefault(each.name, each) == each, each.name


def test_a_figure_of_one_pool_is_found_by_its_pool(plan: Plan) -> None:
    small, large = plan.find("small.memory.kv_tokens"), plan.find("large.memory.kv_tokens")
    assert (small.value, large.value) == tuple(each.memory.kv_tokens for each in plan.pools)
    with pytest.raises(InputError, match=r"small\.memory\.kv_tokens"):
        plan.find("memory.kv_tokens")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: large, ", "", "pools.1.name = None: is missing"),
        ("name: large", "name: small", "appears twice"),
        (", pool: large", "", "is missing, but there are several pools"),
        ("pool: large", "pool: larg", "large"),
        ("pools:", "pool: {model: llama-3.1-8b, device: h100-sxm}\npools:", "cannot be combined with pool"),
    ],
)
def test_pools_that_contradict_each_other(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TWO
    file = tmp_path / "plan.yaml"
    file.write_text(TWO.replace(old, new))
    with pytest.raises(InputError) as caught:
        verbs.plan(file, as_of=AS_OF)
    assert message in str(caught.value)
