"""What an overload leaves of requests, counted on a run that is made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ullage.admission import proof
from ullage.admission.proof import _overloaded, engine_flags
from ullage.service.trial.trial import Guard


@pytest.mark.parametrize(
    ("counts", "success", "refused"),
    [((10, 6, 1, 2), 0.6, 0.3), ((1, 1, 0, 0), 1.0, 0.0), ((1, 0, 1, 0), 0.0, 1.0), ((0, 0, 0, 0), 0.0, 0.0)],
)
def test_shares_are_of_the_requests_that_were_sent(
    counts: tuple[int, ...], success: float, refused: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, good, shed, late = counts
    asked: dict[str, Any] = {}
    total = SimpleNamespace(
        counts=SimpleNamespace(requests=requests, success=good, shed=shed, timed_out=late), goodput_rps=0.0
    )

    def run(load: object, **named: Any) -> Any:
        asked.update(load=load, **named)
        return SimpleNamespace(total=total)

    clients: Any = SimpleNamespace(run=run, steady=lambda rate_rps: ("steady", rate_rps))
    kept = [SimpleNamespace(name="ttft", is_kept=False), SimpleNamespace(name="tpot", is_kept=True)]
    monkeypatch.setattr(proof, "slos_met", lambda *_: kept)
    found = _overloaded(clients, ("a gateway", "guard", 1.5), 4.0)  # type: ignore[arg-type]
    assert (found.enforced_by, found.load_ratio) == ("a gateway", 1.5)
    assert (found.success_fraction, found.refused_fraction) == (success, refused)
    assert found.missed == ("ttft",)
    # Half as much again as the four that are planned, from clients that wait.
    assert asked == {"load": ("steady", 6.0), "guard": "guard", "patient": True}


@pytest.mark.parametrize(
    ("least_waiting", "joint", "lost", "expected"),
    [
        (0, 0, 0.0, (40, 5)),  # the bound of overload costs the planned load nothing
        (18, 100, 0.0, (40, 20)),  # with it no limit passes: the least limit, and the least bound that passes
        (18, 48, 0.0, (48, 5)),  # a looser limit makes room for the bound of overload
        (1000, 1000, 0.0, (40, None)),  # no bound passes: the limit stays
        (18, 100, 0.2, (64, None)),  # flags that refuse what would be served are left out
    ],
)
def test_a_bound_that_fails_the_planned_load_is_widened_and_the_limit_stays(
    least_waiting: int,
    joint: int,
    lost: float,
    expected: tuple[int, int | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A planned load that needs 40 running, and so many waiting or, with fewer, `joint` running."""

    def under(flags: Guard | None, _map: object) -> tuple[None, tuple[str, ...]]:
        if flags is None:
            return None, ()
        waits = flags.waiting_requests is None or flags.waiting_requests >= least_waiting
        return None, () if flags.running_requests >= (40 if waits else joint) else ("chat ttft_p95",)

    def overloaded(_clients: object, case: tuple[str, Guard, float], _rps: float) -> Any:
        return SimpleNamespace(success_fraction=0.9 - (lost if case[1].running_requests < 64 else 0.0))

    monkeypatch.setattr(proof, "_overloaded", overloaded)
    engine = SimpleNamespace(max_sequences=64)
    planned: Any = SimpleNamespace(under=under, trial=SimpleNamespace(replica=SimpleNamespace(engine=engine)))
    guard = Guard(running_requests=16, waiting_requests=5, first_token_s={})
    clients: Any = None
    found, free = (
        engine_flags(planned, clients, guard, planning_rps=1.0, has_queue_flag=each) for each in (True, False)
    )
    assert (found.running_requests, found.waiting_requests) == expected
    assert (free.running_requests, free.waiting_requests) == (40, None)
