"""`ullage ledger` and `ullage reconcile` as they are typed, on a plan that was kept."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.json_schemas import verb_schema
from support.kept_case import KeptCase
from support.production import Planted, open_metrics, write_answers
from support.prometheus import prometheus
from ullage.cli.app import run
from ullage.errors import ExitCode, NotGiven
from ullage.files.plan_edit import edited_text, unified_diff
from ullage.files.plan_file import read_plan_document
from ullage.files.strict_yaml import read_yaml
from ullage.load.evidence import read_calibration
from ullage.reconcile.inputs import DriftInputs
from ullage.reconcile.score import LastReconciled
from ullage.verbs.ledger import last_of

NAMES = "label: product\n"
DRIFTED = Planted(inputs=DriftInputs(traffic_ratio=1.6))


@pytest.fixture
def names(tmp_path: Path) -> str:
    file = tmp_path / "names.yaml"
    file.write_text(NAMES)
    return str(file)


def answers(kept: KeptCase, folder: Path, planted: Planted = DRIFTED) -> str:
    seen = kept.production.observation(planted, start_s=kept.start_s, weeks=1.0, seed=2)
    return str(write_answers(folder, open_metrics(seen, scrape_s=900.0, replicas=kept.production.replicas)))


@pytest.mark.slow
def test_a_kept_plan_is_listed_shown_exported_and_taken_over(
    kept: KeptCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["--ledger", str(kept.ledger)]
    assert run(["ledger", *place]) == ExitCode.OK
    assert kept.digest[:12] in capsys.readouterr().out
    assert run(["ledger", "show", kept.digest[:8], "--json", *place]) == ExitCode.OK
    shown = json.loads(capsys.readouterr().out)
    assert shown["content"]["document"]["schema"] == "ullage.plan/2"
    assert "# People wait for it." in shown["content"]["source"]["text"]
    out, other = tmp_path / "ledger.jsonl", tmp_path / "other.sqlite"
    assert run(["ledger", "export", "--out", str(out), *place]) == ExitCode.OK
    assert run(["ledger", "import", str(out), "--ledger", str(other)]) == ExitCode.OK
    assert run(["ledger", "import", str(out), "--ledger", str(other)]) == ExitCode.OK
    assert run(["ledger", "verify", "--ledger", str(other)]) == ExitCode.OK
    assert run(["ledger", "diff", "latest", kept.digest[:9], "--ledger", str(other)]) == ExitCode.OK
    capsys.readouterr()
    out.write_text(out.read_text().replace("two classes", "one class"))
    assert run(["ledger", "import", str(out), "--ledger", str(other)]) == ExitCode.WRONG_INPUT
    assert "was changed since it was exported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lst"], "list"),
        (["show"], "takes 1"),
        (["diff", "latest"], "takes 2"),
        (["export"], "--out"),
        (["import"], "has no file"),
        (["prune"], "has no rule"),
        (["list", "abc"], "takes no names"),
        (["list", "--kind", "plans"], "plan"),
    ],
)
def test_what_is_wrong_is_named(
    kept: KeptCase, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["ledger", *arguments, "--ledger", str(kept.ledger)]) == ExitCode.WRONG_INPUT
    assert said in capsys.readouterr().err


def valid(verb: str, found: dict[str, Any]) -> dict[str, Any]:
    import jsonschema

    jsonschema.Draft202012Validator(verb_schema(verb)).validate(found)
    return found


@pytest.mark.slow
def test_a_drift_is_found_in_files_kept_and_written_as_a_diff(
    kept: KeptCase, names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ULLAGE_LEDGER", str(kept.ledger))
    assert isinstance(last_of("two classes"), NotGiven)
    diff = tmp_path / "plan.diff"
    asked = ["reconcile", answers(kept, tmp_path), "--plan", kept.digest[:12], "--names", names]
    asked += ["--apply", str(diff), "--keep", "--json", "--quiet"]
    # Past its tolerances: traffic is more than half up, which is more than a replica.
    assert run(asked) == ExitCode.REFUSED
    found = valid("reconcile", json.loads(capsys.readouterr().out))
    assert [each["cause"] for each in found["found"]["causes"]["shares"]] == ["traffic"]
    assert found["found"]["past"]
    assert found["kept_as"]
    # The diff applies to the file that was kept, and what it makes is a plan file.
    (tmp_path / "plan.yaml").write_text(kept.file.read_text())
    done = subprocess.run(["patch", "-p1", "-i", str(diff)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    changed = (tmp_path / "plan.yaml").read_text()
    read_plan_document(read_yaml(changed, file="plan.yaml"))
    assert "# People wait for it." in changed
    assert "rate: 9." in changed
    # Step times hold, so that the diff leaves them alone; what production says of them can be read all the same.
    assert "calibrations" not in changed
    fitted = read_calibration(tmp_path / "plan.calibration.json")
    assert fitted.tested is not None
    assert fitted.configuration["model"] == "llama-3.1-8b"
    # The next plan knows of it.
    stage = last_of("two classes")
    assert isinstance(stage, LastReconciled)
    assert float(stage.figures["reconcile.forecast_wape_fraction"].value) > 0.3
    assert run(["ledger", "verify", "--json"]) == ExitCode.OK
    verified = valid("ledger", json.loads(capsys.readouterr().out))
    assert verified["damage"] == []
    assert verified["seen_count"] == 4
    again = ["reconcile", answers(kept, tmp_path), "--plan", kept.digest, "--names", names, "--json", "--quiet"]
    assert run(again) == ExitCode.REFUSED
    assert json.loads(capsys.readouterr().out)["found"]["risk"]["stretches"] == 2


HPA = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: pool}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: pool}
  minReplicas: 1
  maxReplicas: 6
  metrics:
    - type: Pods
      pods: {metric: {name: vllm_num_requests_waiting}, target: {type: AverageValue, averageValue: "2"}}
"""


@pytest.mark.slow
def test_a_rule_is_played_beside_the_replicas_that_ran(
    kept: KeptCase, names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What ran is what was observed: its replica-hours are those of the files, whatever the rule would have done."""
    rules = tmp_path / "hpa.yaml"
    rules.write_text(HPA)
    asked = ["shadow", answers(kept, tmp_path, Planted()), "--plan", str(kept.file), "--names", names, "--quiet"]
    assert run([*asked, "--rules", str(rules), "--json"]) == ExitCode.OK
    found = valid("shadow", json.loads(capsys.readouterr().out))["found"]
    assert found["live_hours"] == pytest.approx(kept.production.replicas * 7 * 24, rel=0.02)
    (rule,) = found["rules"]
    assert 0.0 < rule["replica_hours"] <= 6 * 7 * 24


@pytest.mark.slow
def test_the_page_and_its_markdown_name_the_verdict(
    kept: KeptCase, names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = answers(kept, tmp_path, Planted())
    asked = ["reconcile", file, "--plan", kept.digest, "--names", names, "--ledger", str(kept.ledger), "--quiet"]
    assert run([*asked, "--markdown"]) == ExitCode.OK
    page = capsys.readouterr().out
    assert "within tolerances" in page
    assert "| arrival rate" in page
    assert "needs no change" in page


@pytest.mark.slow
def test_a_real_prometheus_and_files_of_it_say_the_same(
    kept: KeptCase, names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = kept.production.observation(DRIFTED, start_s=kept.start_s, weeks=1.0, seed=2)
    common = ["--plan", kept.digest, "--names", names, "--ledger", str(kept.ledger), "--json", "--quiet"]
    with prometheus(tmp_path, open_metrics(seen, scrape_s=300.0)) as address:
        stretch = ["--from", "2026-11-16", "--until", "2026-11-23"]
        run(["reconcile", "--prometheus", address, *stretch, *common])
        server = json.loads(capsys.readouterr().out)["found"]
    run(["reconcile", answers(kept, tmp_path), *common])
    file = json.loads(capsys.readouterr().out)["found"]
    for name in ("arrival rate", "mean prompt", "mean output", "cached share of prompts"):
        one, other = (next(each for each in found["inputs"] if each["name"] == name) for found in (server, file))
        assert one["observed_value"] == pytest.approx(other["observed_value"], rel=0.01), name
        assert one["verdict"] == other["verdict"]
    assert server["causes"]["shares"][0]["cause"] == "traffic"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "needs exactly one source"),
        (["--prometheus", "http://x"], "--until"),
        (["--prometheus", "http://x", "--from", "2026-11-02", "--until", "2026-11-01"], "not after"),
        (["--prometheus", "http://x", "--from", "soon", "--until", "2026-11-01"], "is not a time"),
        (
            ["--prometheus", "http://x", "--from", "2026-11-01", "--until", "2026-11-02", "--plan", "ffffffff"],
            "is not in",
        ),
        (["none.json"], "no such file"),
    ],
)
def test_a_wrong_question_is_named(
    kept: KeptCase, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["reconcile", *arguments, "--ledger", str(kept.ledger), "--quiet"]) == ExitCode.WRONG_INPUT
    assert said in capsys.readouterr().err


def test_the_queries_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reconcile", "--queries", "--from", "2026-11-01", "--until", "2026-11-08"]) == ExitCode.OK
    assert "arrivals.json" in capsys.readouterr().out


BLOCK = """\
# Mine.
workload:
  classes:
    - name: chat
      rate: 20 req/s  # by hand
      slo: {ttft_p95: 1s}
    - {name: coding, rate: 4 req/s}
policy:
  horizon: 30d

pool: {model: a}
"""


def test_an_edit_keeps_everything_else_as_it_was_typed() -> None:
    changes = [
        ("workload.classes.chat.rate", "26 req/s"),
        ("workload.classes.chat.cached_fraction", "40%"),
        ("workload.classes.coding.output.p50", "300"),
        ("policy.reconcile_every", "3d"),
    ]
    new = edited_text(BLOCK, changes, file="plan.yaml")
    assert new == BLOCK.replace("20 req/s", "26 req/s").replace(
        "slo: {ttft_p95: 1s}", "slo: {ttft_p95: 1s}\n      cached_fraction: 40%"
    ).replace("rate: 4 req/s}", "rate: 4 req/s, output: {p50: 300}}").replace(
        "horizon: 30d", "horizon: 30d\n  reconcile_every: 3d"
    )
    assert edited_text(new, [], file="plan.yaml") == new
    diff = unified_diff(BLOCK, new, file="plan.yaml", said=["because"])
    assert diff.startswith("# because\n--- a/plan.yaml")
    added = [line for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert len(added) == 4
