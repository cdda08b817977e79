"""What is typed arrives where the work is done, a refused plan is the answer of whatever asked for it, and no number
outside its range is worked with.

The plan is one that is refused at once, or is made up: nothing here is simulated.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.made_up import MadeUp
from support.planned import AS_OF, SMALL, read
from ullage import verbs
from ullage.errors import InputError, Rejection
from ullage.planning.document import Plan
from ullage.planning.work.estimate import STUDY_ROUNDS
from ullage.verbs.answer import Refusal, VerbAnswer
from ullage.verbs.cost import follows_of
from ullage.verbs.scenarios import own_future

TOO_LARGE = {"pool.model": "llama-3.1-70b"}
"""Its weights do not fit the device of the small plan, which is known before anything is simulated."""

RUNS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  replicas: 2
  template:
    spec:
      containers:
        - {name: vllm, args: [--model, meta-llama/Llama-3.1-8B], resources: {limits: {nvidia.com/gpu: 1}}}
"""


def refused(verb: str, tmp_path: Path, set: dict[str, str]) -> object:  # noqa: A002
    ask: Callable[..., object] = getattr(verbs, verb)
    if verb == "brownfield":
        (tmp_path / "runs.yaml").write_text(RUNS)
        return ask([tmp_path / "runs.yaml"], plan=SMALL, set=set, as_of=AS_OF)
    if verb == "portfolio":
        return ask([SMALL], set=set, as_of=AS_OF)
    if verb == "gate":
        return ask(tmp_path, tmp_path, plan=SMALL, set=set, as_of=AS_OF)
    return ask(SMALL, set=set, as_of=AS_OF)


@pytest.mark.parametrize(
    "verb",
    ["brownfield", "buy", "check", "cost", "curve", "drill", "gate", "plan", "portfolio", "risk", "scale", "scenarios",
     "size"],
)  # fmt: skip
def test_a_change_is_planned_and_its_refusal_is_the_answer(verb: str, tmp_path: Path) -> None:
    found = refused(verb, tmp_path, TOO_LARGE)
    assert isinstance(found, Refusal)
    assert found.stage == "memory"
    assert found.to_dict()["schema"] == "ullage.refusal/2"


class Asked:
    """Stands for the pipeline: it keeps what it was asked and hands back a made-up plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.named: dict[str, Any] = {}
        self.limit: str | None = None
        self.seed: int | None = None
        self.changes: tuple[str, ...] = ()

    def __call__(self, source: object, run: Any, changes: Any = None, **named: Any) -> Plan:
        self.named = {"source": source, **named}
        self.limit, self.seed = run.limit, run.seed
        self.changes = () if changes is None else changes.texts
        return self.plan


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked(MadeUp(is_bare=True, as_of=AS_OF)(Plan))
    # By its module: the package hands out the verb of the same name.
    monkeypatch.setattr(importlib.import_module("ullage.verbs.plan"), "planned", made)
    return made


def worker(monkeypatch: pytest.MonkeyPatch, name: str, answer: object = None) -> list[SimpleNamespace]:
    """What a function of the core is asked, instead of doing it."""
    calls: list[SimpleNamespace] = []

    def stands_for(*given: Any, **named: Any) -> object:
        calls.append(SimpleNamespace(given=given, named=named))
        return answer

    monkeypatch.setattr(name, stands_for)
    return calls


COMMON: dict[str, Any] = {
    "set": {"pool.max_sequences": 8}, "traffic": "x2", "as_of": AS_OF, "seed": 5, "limit": "90 cpu-s",
}  # fmt: skip
# The work of each in plans, by which a limit is kept: the plan itself, and what the verb plans or simulates besides.
ROUNDS = {"buy": 2.0, "check": 1.25, "drill": 1.4, "risk": 1.0 + STUDY_ROUNDS}


def check_common(asked: Asked, verb: str) -> None:
    assert asked.named["source"] is SMALL
    assert asked.named["rounds"] == ROUNDS[verb]
    assert (asked.limit, asked.seed) == ("90 cpu-s", 5)
    assert asked.changes == ("pool.max_sequences=8", "traffic x2")


def test_how_to_buy_is_asked_as_typed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    bought = worker(monkeypatch, "ullage.uncertainty.buying.buying")
    found = verbs.buy(SMALL, fleet="fixed", months=24, regret="10%", **COMMON)
    check_common(asked, "buy")
    (plan, choice), (one,) = bought[0].given, bought
    assert plan is asked.plan
    assert "map" in one.named
    assert (choice.follows, choice.months, choice.most_regret.value) == (False, 24, pytest.approx(0.1))
    assert choice.most_regret.source.date == AS_OF
    assert found.dated() == AS_OF
    verbs.buy(SMALL, as_of=AS_OF)
    loose = bought[1].given[1]
    assert (loose.follows, loose.months, loose.most_regret) == (True, None, None)
    assert asked.seed == 0


@pytest.mark.parametrize(("regret", "part"), [(0.0, 0.0), (10.0, 10.0), ("100%", 1.0)])
def test_the_ends_of_the_regret_are_inside(
    regret: str | float, part: float, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    bought = worker(monkeypatch, "ullage.uncertainty.buying.buying")
    verbs.buy(SMALL, regret=regret, as_of=AS_OF)
    assert bought[0].given[1].most_regret.value == part


def test_what_cannot_be_bought_is_a_refusal(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = read("buy.nodes", 3.0, "nodes")
    why = Rejection(stage="buying", reason="nothing is sold", figure=figure, remedies=())
    worker(monkeypatch, "ullage.uncertainty.buying.buying", why)
    found = verbs.buy(SMALL, as_of=AS_OF)
    assert isinstance(found, Refusal)
    assert found.stage == "buying"


@pytest.mark.parametrize(
    ("typed", "usd"),
    [(None, None), ("5000 USD", 5000.0), ("5,000 usd", 5000.0), (0, 0.0), (12.5, 12.5), ("999999999999", 999999999999)],
)
def test_a_bad_hour_is_an_amount(
    typed: str | float | None, usd: float | None, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    studied = worker(monkeypatch, "ullage.uncertainty.study.study")
    found = verbs.risk(SMALL, bad_hour=typed, **COMMON)
    check_common(asked, "risk")
    assert studied[0].given == (asked.plan,)
    assert studied[0].named.keys() == {"map", "jobs"}
    assert not isinstance(found, Refusal)
    assert found.bad_hour_usd == usd


def test_the_drills_and_checks_that_are_named_are_those_made(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    drilled = worker(monkeypatch, "ullage.planning.drills.drills.run_drills")
    verbs.drill(SMALL, ("queue-collapse",), **COMMON)
    check_common(asked, "drill")
    assert drilled[0].given == (asked.plan, ("queue-collapse",))
    checked = worker(monkeypatch, "ullage.planning.checks.checks.check_plan", "checks")
    ruled = worker(monkeypatch, "ullage.planning.checks.rules.with_rules")
    verbs.check(SMALL, ("maximum-throughput",), **COMMON)
    check_common(asked, "check")
    assert checked[0].given == (asked.plan, ("maximum-throughput",))
    assert ruled[0].given == ("checks", asked.plan, [])


def test_days_of_traffic_that_rules_are_played_on_count_as_work(asked: Asked) -> None:
    """By hand: a search plays 40 days, that at equal attainment 34, and each of two days of three weeks 18."""
    asked.plan = MadeUp(is_bare=True, as_of=AS_OF, pools=())(Plan)
    found = verbs.scale(SMALL, days=2, weeks=3, as_of=AS_OF)
    assert asked.named["played_days"] == 40 + 34 + 18 * 2 * 3
    assert not isinstance(found, Refusal)
    assert found.pools == ()


OUTSIDE: list[tuple[str, dict[str, Any], str]] = [
    ("buy", {"months": 0}, "--months = 0"),
    ("buy", {"months": 61}, "--months = 61"),
    ("buy", {"regret": "-1%"}, "--regret"),
    ("buy", {"regret": 10.1}, "--regret = 10.1"),
    ("buy", {"fleet": "folowing"}, "Did you mean following"),
    ("cost", {"fleet": "fixd"}, "Did you mean fixed"),
    ("risk", {"bad_hour": "a lot"}, "--bad-hour = 'a lot'"),
    ("risk", {"bad_hour": -1}, "--bad-hour = -1"),
    ("risk", {"bad_hour": 1e12}, "--bad-hour"),
    ("drill", {"names": ["queue-colapse"]}, "Did you mean queue-collapse"),
    ("check", {"names": ["maximum-throughputs"]}, "Did you mean maximum-throughput"),
    ("scale", {"days": 0}, "days = 0"),
    ("scale", {"days": 8}, "days = 8"),
    ("scale", {"weeks": 0}, "weeks = 0"),
    ("scale", {"weeks": 9}, "weeks = 9"),
    ("scenarios", {"own": ["base:traffic=+1%"]}, "is the name of a built-in scenario"),
    ("scenarios", {"own": ["launch"]}, "is not NAME: KEY=VALUE"),
    ("scenarios", {"own": [":traffic=+1%"]}, "is not NAME: KEY=VALUE"),
    ("scenarios", {"own": ["launch: ,"]}, "is not NAME: KEY=VALUE"),
]


@pytest.mark.parametrize(("verb", "given", "said"), OUTSIDE, ids=[f"{verb} {given}" for verb, given, _ in OUTSIDE])
def test_what_is_outside_its_range_is_told_before_the_plan(
    verb: str, given: dict[str, Any], said: str, asked: Asked
) -> None:
    with pytest.raises(InputError) as told:
        getattr(verbs, verb)(SMALL, as_of=AS_OF, **given)
    assert said in str(told.value)
    assert asked.named == {}


def test_the_ends_of_every_range_are_inside(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.plan = MadeUp(is_bare=True, as_of=AS_OF, pools=())(Plan)
    for days, weeks in ((1, 1), (7, 8)):
        assert isinstance(verbs.scale(SMALL, days=days, weeks=weeks, as_of=AS_OF), VerbAnswer)
    bought = worker(monkeypatch, "ullage.uncertainty.buying.buying")
    for months in (1, 60):
        verbs.buy(SMALL, months=months, as_of=AS_OF)
    assert [each.given[1].months for each in bought] == [1, 60]
    assert (follows_of("fixed"), follows_of("following")) == (False, True)


def test_a_future_of_ones_own_is_a_name_and_its_changes() -> None:
    name, changes = own_future(" launch : traffic = +80%, pool.tensor_parallel=4 ")
    assert name == "launch"
    assert changes.texts == ("pool.tensor_parallel=4", "traffic x1.8")
    # What is typed twice is what was typed last.
    assert own_future("a: traffic=+1%, traffic=+2%")[1].texts == own_future("a: traffic=+2%")[1].texts
    with pytest.raises(InputError, match="--own"):
        own_future("a: pool.tensor_parallel")


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.1])
def test_a_tolerance_is_between_none_and_all(share: float, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--tolerance = .* above 0 and below 1"):
        verbs.gate(tmp_path, tmp_path, plan=SMALL, tolerance_fraction=share, as_of=AS_OF)


def test_a_side_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"BEFORE = .*missing.json'.*: does not exist"):
        verbs.gate(tmp_path / "missing.json", tmp_path, plan=SMALL, as_of=AS_OF)


def test_a_portfolio_needs_a_plan_and_says_what_it_cannot_place(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"plans.*there is none"):
        verbs.portfolio([], as_of=AS_OF)
    with pytest.raises(InputError, match="--decide = -1"):
        verbs.portfolio([SMALL], decide=-1, as_of=AS_OF)
    found = verbs.portfolio([SMALL], set=TOO_LARGE, as_of=AS_OF)
    assert isinstance(found, Refusal)
    assert found.reason.startswith("plan: ")
