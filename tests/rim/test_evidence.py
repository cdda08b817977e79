"""Laws of evidence: a class never gets stronger on the way up, and every number can be walked to its sources."""

from __future__ import annotations

import datetime
import importlib
import pkgutil
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ullage
from ullage.evidence import Assumption, Evidence, Figure, Source, assumptions_of, each_once, walk, weakest

DATE = datetime.date(2026, 11, 15)
SOURCE = Source(what="a data sheet", where="page 3", date=DATE)
CLASSES = st.sampled_from(list(Evidence))

_names = (f"n{number}" for number in range(10**9))


def _assumption(evidence: Evidence) -> Assumption:
    return Assumption(name=next(_names), value=1.0, unit="s", evidence=evidence, source=SOURCE)


def _computed(inputs: list[Figure | Assumption]) -> Figure:
    return Figure(name=next(_names), value=2.0, unit="s", formula="sum of the inputs", inputs=tuple(inputs))


LEAVES: st.SearchStrategy[Figure | Assumption] = CLASSES.map(_assumption)
TREES: st.SearchStrategy[Figure | Assumption] = st.recursive(
    LEAVES, lambda below: st.lists(below, min_size=1, max_size=4).map(_computed), max_leaves=12
)


@given(classes=st.lists(CLASSES, min_size=1))
def test_the_weakest_is_one_of_them_and_none_is_weaker(classes: list[Evidence]) -> None:
    found = weakest(classes)
    assert found in classes
    assert all(found.rank >= each.rank for each in classes)


def test_the_order_of_the_classes() -> None:
    assert [str(each) for each in sorted(Evidence, key=lambda each: each.rank)] == [
        "stated",
        "measured",
        "calibrated",
        "profiled",
        "estimated",
        "assumed",
    ]


@given(root=TREES)
def test_a_derived_number_is_never_stronger_than_anything_under_it(root: Figure | Assumption) -> None:
    for _, each in walk(root):
        if not isinstance(each, Source):
            assert root.evidence.rank >= each.evidence.rank


def test_a_default_decision_does_not_weaken_a_measurement() -> None:
    measured, chosen = _assumption(Evidence.MEASURED), replace(_assumption(Evidence.ASSUMED), decision=True)
    assert _computed([measured, chosen]).evidence is Evidence.MEASURED
    assert _computed([chosen]).evidence is Evidence.ASSUMED
    assert chosen in assumptions_of([_computed([measured, chosen])])


@given(root=TREES)
def test_every_branch_ends_in_a_source(root: Figure | Assumption) -> None:
    steps = list(walk(root))
    for (depth, each), (next_depth, _) in zip(steps, [*steps[1:], (0, SOURCE)], strict=True):
        assert isinstance(each, Source) == (next_depth <= depth)


@given(root=TREES)
def test_assumptions_are_listed_once_in_order(root: Figure | Assumption) -> None:
    names = [each.name for each in assumptions_of([root, root])]
    assert names == sorted(set(names))


def test_own_evidence_can_weaken_but_not_strengthen() -> None:
    measured = _assumption(Evidence.MEASURED)
    weaker = Figure(name="f", value=1, unit="s", formula="fit", inputs=(measured,), own_evidence=Evidence.CALIBRATED)
    assert weaker.evidence is Evidence.CALIBRATED
    assumed = _assumption(Evidence.ASSUMED)
    not_stronger = Figure(name="g", value=1, unit="s", formula="fit", inputs=(assumed,), own_evidence=Evidence.MEASURED)
    assert not_stronger.evidence is Evidence.ASSUMED


@pytest.mark.parametrize(
    ("make", "law"),
    [
        (lambda: Figure(name="f", value=1, unit="s"), "a figure has inputs or sources"),
        (lambda: Figure(name="f", value=1, unit="s", sources=(SOURCE,)), "states its evidence"),
        (lambda: Figure(name="f", value=1, unit="s", inputs=(_assumption(Evidence.STATED),)), "has a formula"),
        (
            lambda: Figure(name="f", value=float("nan"), unit="s", sources=(SOURCE,), own_evidence=Evidence.MEASURED),
            "a number is finite",
        ),
        (lambda: Source(what=" ", where="here", date=DATE), "says what it is"),
        (
            lambda: Assumption(name="a", value=3, unit="s", low=4, high=5, evidence=Evidence.STATED, source=SOURCE),
            "lies in its range",
        ),
        (
            lambda: Assumption(name="a", value=3, unit="s", low=1, evidence=Evidence.STATED, source=SOURCE),
            "lies in its range",
        ),
    ],
)
def test_evidence_that_says_nothing_cannot_be_made(make: object, law: str) -> None:
    with pytest.raises(ValueError, match=law):
        make()  # type: ignore[operator]


def test_an_assumption_goes_stale_the_day_after_its_maximum_age() -> None:
    priced = Assumption(
        name="price",
        value=3.0,
        unit="USD/h",
        evidence=Evidence.STATED,
        source=SOURCE,
        max_age=datetime.timedelta(days=30),
    )
    assert not priced.is_stale(DATE + datetime.timedelta(days=30))
    assert priced.is_stale(DATE + datetime.timedelta(days=31))


@given(TREES)
def test_each_once_is_the_walk_without_repetitions(root: Figure | Assumption) -> None:
    walked: list[int] = []
    for _, each in walk(root):
        if id(each) not in walked:
            walked.append(id(each))
    assert [id(each) for each in each_once([root])] == walked


def test_what_many_rest_on_is_looked_at_once() -> None:
    """Sixty layers of two that rest on the same two: as a tree they would be 10^18 numbers."""
    below: list[Figure | Assumption] = [_assumption(Evidence.MEASURED), _assumption(Evidence.ESTIMATED)]
    for _ in range(60):
        below = [_computed(below), _computed(below)]
    assert below[0].evidence is Evidence.ESTIMATED
    assert len(assumptions_of(below)) == 2


@pytest.mark.slow
def test_every_default_lies_in_its_own_range_and_a_share_within_the_whole() -> None:
    """Of every module that states one: what stands in for a number of the user must be possible itself."""
    seen: dict[int, Assumption] = {}
    for each in pkgutil.walk_packages(ullage.__path__, "ullage."):
        if each.name.split(".")[1] in ("cli", "serve", "compile_cache") or each.name.endswith("__main__"):
            continue
        module = importlib.import_module(each.name)
        seen |= {id(one): one for one in vars(module).values() if isinstance(one, Assumption)}
    assert len(seen) > 50
    for one in seen.values():
        low, high = (one.value if end is None else end for end in (one.low, one.high))
        if isinstance(one.value, str):
            continue
        assert isinstance(low, int | float), one.name
        assert isinstance(high, int | float), one.name
        assert low <= one.value <= high, one.name
        assert one.unit != "fraction" or 0.0 <= low <= high <= 1.0, one.name
