"""What an overload leaves of requests, counted on a run that is made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ullage.admission import proof
from ullage.admission.proof import _overloaded


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
