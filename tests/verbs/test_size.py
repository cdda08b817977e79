"""`ullage size` on the built-in example."""

from __future__ import annotations

import datetime
import json

import pytest

from ullage.cli.app import run
from ullage.errors import InputError
from ullage.verbs.size import SizeAnswer, size

AS_OF = datetime.date(2026, 11, 15)


def _size(rate: str, *slos: str) -> SizeAnswer:
    found = size(rate=rate, slos=slos, as_of=AS_OF, seed=1)
    assert isinstance(found, SizeAnswer)
    return found


@pytest.mark.slow
def test_more_traffic_needs_more_and_a_looser_slo_not_more() -> None:
    small, large = _size("3"), _size("12 req/s")
    assert small.size.replicas < large.size.replicas
    loose = _size("12 req/s", "tpot_p95=200ms", "ttft_p95=10s")
    assert loose.size.replicas <= large.size.replicas
    assert loose.size.conservative_replicas >= loose.size.replicas


@pytest.mark.slow
def test_json_says_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", "--rate", "4", "--json", "--quiet", "--as-of", "2026-11-15"]) == 0
    document = json.loads(capsys.readouterr().out)["size"]
    assert run(["size", "--rate", "4", "--quiet", "--as-of", "2026-11-15"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(f"{document['conservative_replicas']} replicas of ")
    assert f"At nominal step times {document['replicas']} replicas" in " ".join(page.split())
    assert document["low_replicas"] <= document["conservative_replicas"] == document["high_replicas"]
    assert document["replicas"] <= document["conservative_replicas"]
    assert document["at_size"]["passes"]


def test_a_wrong_rate_is_an_error_that_says_how_to_mend_it() -> None:
    for wrong in ("fast", "-3", "4 tokens/s", "1e9 req/s"):
        with pytest.raises(InputError, match="--rate"):
            size(rate=wrong)
    with pytest.raises(InputError, match="rate"):
        size(rate="0")


def test_an_impossible_slo_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["size", "--rate", "4", "--quiet", "--slo", "ttft_p50=1ms"]) == 3
    assert "REFUSED at operating point" in capsys.readouterr().out
