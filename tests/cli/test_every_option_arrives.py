"""Every option of a command line arrives at its verb as it was typed, and an answer is printed as it was asked for.

The verbs are stood in for by one that keeps what it was asked and refuses: nothing is planned here.
"""

from __future__ import annotations

import datetime
import importlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.planned import read
from ullage import verbs
from ullage.cli import terminal
from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.verbs.answer import Refusal

DAY = datetime.date(2026, 11, 15)
REFUSED = Refusal(stage="memory", reason="it does not fit", figure=read("memory.kv_tokens", 7.0, "tokens"), remedies=())
COMMON = "--as-of 2026-11-15 --seed 5"
WHEN = {"as_of": DAY, "seed": 5}
LIMITED = {**WHEN, "limit": "cpu=1min"}

# What is typed, and what the verb is to be asked; the rest is as the verb has it by itself.
TYPED: list[tuple[str, dict[str, Any]]] = [
    ("brownfield a.yaml b.yaml --plan p.yaml", {"files": ["a.yaml", "b.yaml"], "plan": "p.yaml", **LIMITED}),
    (
        "buy p.yaml --fleet fixed --months 12 --regret 10%",
        {"source": "p.yaml", "fleet": "fixed", "months": 12, "regret": "10%", **LIMITED},
    ),
    ("check p.yaml --rules r.yaml", {"source": "p.yaml", "names": [], "rules": ["r.yaml"], **LIMITED}),
    ("compare old.yaml new.yaml", {"old": "old.yaml", "new": "new.yaml", **LIMITED}),
    (
        ("cost p.yaml --by tenant --rule causation --basis allocation --allotted a=0.3 --idle spread"
            " --spread-by requests --known t --usage u.csv --column tenant=who --against p/m --marginal"
            " --commit 1y-no-upfront --before b.yaml --quarter --fleet following --ledger l.sqlite"),
        {
            "source": "p.yaml", "by": "tenant", "rule": "causation", "basis": "allocation", "allotted": {"a": 0.3},
            "idle": "spread", "spread_rule": "requests", "known": ["t"], "usage": ["u.csv"],
            "columns": {"tenant": "who"}, "against": "p/m", "marginal": True, "commit": "1y-no-upfront",
            "before": "b.yaml", "months": 3, "fleet": "following", "ledger": "l.sqlite", **LIMITED,
        },
    ),
    ("cost p.yaml --year", {"source": "p.yaml", "months": 12, **LIMITED}),
    (
        ("curve p.yaml --slo ttft_p95=1s --margin 10% --sensitivity --definitions guidellm --calibration c.json"
        " --measured m.json --beside 30%"),
        {
            "source": "p.yaml", "slos": ["ttft_p95=1s"], "margin": "10%", "sensitivity": True,
            "definitions": "guidellm", "calibration": "c.json", "measured": ["m.json"], "beside": "30%", **LIMITED,
        },
    ),
    ("drill p.yaml queue-collapse --run-on ray", {
        "source": "p.yaml", "names": ["queue-collapse"], "run_on": "ray", **LIMITED,
    }),
    (
        "emit p.yaml --target keda,helm --target hpa --plan p.json --diff d --searched",
        {"source": "p.yaml", "targets": ["keda", "helm", "hpa"], "stored": "p.json", "against": "d", "searched": True,
         **LIMITED},
    ),
    (
        ("gate a.json b.json --plan p.yaml --tolerance 5% --cached-share 20% --replicas 2 --timeout 30s --accept x"
        " --no-replicas"),
        {"before": "a.json", "after": "b.json", "plan": "p.yaml", "tolerance_fraction": 0.05, "quick": True, **LIMITED},
    ),
    ("options p.yaml --run-on ray", {"source": "p.yaml", "run_on": "ray", **LIMITED}),
    (
        "plan p.yaml --quick --run-on ray",
        {"source": "p.yaml", "quick": True, "run_on": "ray", **LIMITED},
    ),
    (
        "portfolio a.yaml b.yaml --quotas q.yaml --decide 3 --run-on ray",
        {"plans": ["a.yaml", "b.yaml"], "quotas": "q.yaml", "decide": 3, "run_on": "ray", **WHEN},
    ),
    (
        "report p.yaml --drills d.json --reconciled r.json --ledger l.sqlite --out new.html",
        {"source": "p.yaml", "drills": "d.json", "reconciled": "r.json", "ledger": "l.sqlite", **LIMITED},
    ),
    ("risk p.yaml --bad-hour 500 --run-on ray", {"source": "p.yaml", "bad_hour": "500", "run_on": "ray", **LIMITED}),
    (
        "scale p.yaml --rules r.yaml --days 2 --weeks 3",
        {"source": "p.yaml", "rules": ["r.yaml"], "days": 2, "weeks": 3, **LIMITED},
    ),
    (
        "scenarios p.yaml --own a:traffic=+1% --run-on ray",
        {"source": "p.yaml", "own": ["a:traffic=+1%"], "run_on": "ray", **LIMITED},
    ),
    (
        ("shadow one.json two.json --plan p.yaml --rules r.yaml --prometheus http://p --http-config h.yaml"
        " --names n.yaml --from 2026-11-01 --until 2026-11-08"),
        {
            "plan": "p.yaml", "files": ["one.json", "two.json"], "rules": ["r.yaml"], "prometheus": "http://p",
            "http_config": "h.yaml", "names": "n.yaml", "from_": "2026-11-01", "until": "2026-11-08", **LIMITED,
        },
    ),
    (
        "size p.yaml --rate 4 --slo ttft_p95=1s --definitions guidellm --calibration c.json --beside 30%",
        {
            "source": "p.yaml", "rate": "4", "slos": ["ttft_p95=1s"], "definitions": "guidellm",
            "calibration": "c.json", "beside": "30%", **LIMITED,
        },
    ),
    (
        "validate a.json b.json --plan p.yaml --calibration c.json",
        {"files": ["a.json", "b.json"], "plan": "p.yaml", "calibration": "c.json", **WHEN},
    ),
]  # fmt: skip

# Verbs whose answers are no refusals: they are asked, and no more.
ONLY_ASKED: list[tuple[str, dict[str, Any]]] = [
    ("facts devices h100 --facts mine --as-of 2026-11-15", {
        "kind": "devices", "name": "h100", "directory": "mine", "as_of": DAY,
    }),
    (
        ("forecast t.csv --horizon 14d --step 30min --percentile 90% --event e:2026-12-24:2026-12-25:0.5 --by tenant"
        " --challenge --column tenant=who --format vllm --zone Europe/Berlin"),
        {
            "source": "t.csv", "horizon_s": 14 * 86_400.0, "step_s": 1800.0, "percentile_fraction": 0.9,
            "events": ["e:2026-12-24:2026-12-25:0.5"], "by": "tenant", "challenge": True, "columns": {"tenant": "who"},
            "format_name": "vllm", "zone": "Europe/Berlin", **WHEN,
        },
    ),
    (
        ("init --model m --device d --trace t.csv --profile p.json --load-test l.json --engine-log e.log --service s"
        " --out below/plan.yaml --as-of 2026-11-15"),
        {
            "model": "m", "device": "d", "traces": ["t.csv"], "profile": "p.json", "load_tests": ["l.json"],
            "engine_logs": ["e.log"], "service": "s", "folder": "below", "as_of": DAY,
        },
    ),
    (
        ("ledger prune a b --ledger l.sqlite --kind plan --service s --all --out o.jsonl --force --newest 3"
        " --younger 30d --really"),
        {
            "action": "prune", "names": ["a", "b"], "ledger": "l.sqlite", "kind": "plan", "service": "s", "most": None,
            "out": "o.jsonl", "force": True, "newest": 3, "younger": "30d", "really": True,
        },
    ),
    ("ledger", {"action": "list", "most": 20}),
    (
        "measure http://r --plan p.yaml --within 2 --tool vllm --tokenizer k --served-model n --folder f --accept x",
        {
            "url": "http://r", "plan": "p.yaml", "within": 2, "tool": "vllm", "tokenizer": "k", "served_model": "n",
            "folder": "f", "accept": ["x"], **WHEN,
        },
    ),
    (
        ("memory m --device d --tp 2 --pp 3 --ep 4 --dp-attention 5 --context 8k --concurrency 6 --kv-dtype fp8"
        " --engine sglang --engine-version 1.2 --memory-fraction 80% --token-budget 4096 --max-sequences 7"
        " --kv-memory 3GB --eager --mtp --speculation ngram:3 --weight-offload 1GB --kv-offload 2GB"
        " --host-memory 64GB --mig 1g.10gb --engine-log e.log --facts mine --as-of 2026-11-15"),
        {
            "model": "m", "device": "d", "tp": 2, "pp": 3, "ep": 4, "dp_attention": 5, "max_context_tokens": 8_000,
            "concurrency": 6, "kv_dtype": "fp8", "engine": "sglang", "version": "1.2", "memory_fraction": 0.8,
            "step_tokens": 4096, "max_sequences": 7, "kv_pool_bytes": 3 * 10**9, "graphs": False, "mtp": True,
            "speculation": "ngram:3", "weight_offload_bytes": 10**9, "kv_offload_bytes": 2 * 10**9,
            "host_bytes": 64 * 10**9, "mig": "1g.10gb", "engine_logs": ["e.log"], "facts": "mine", "as_of": DAY,
        },
    ),
    (
        ("profile a.csv b.csv --column tenant=who --format vllm --zone Europe/Berlin --tenant-key k --max-age 10d"
        " --as-of 2026-11-15"),
        {
            "traces": ["a.csv", "b.csv"], "columns": {"tenant": "who"}, "format_name": "vllm", "zone": "Europe/Berlin",
            "tenant_key": "k", "max_age_s": 10 * 86_400.0, "as_of": DAY,
        },
    ),
    (
        ("reconcile one.json --plan abc --prometheus http://p --from 2026-11-01 --until 2026-11-08 --http-config h.yaml"
        " --names n.yaml --paid f.csv --apply new.diff --backtest --keep --ledger l.sqlite"),
        {
            "plan": "abc", "files": ["one.json"], "prometheus": "http://p", "from_": "2026-11-01",
            "until": "2026-11-08", "http_config": "h.yaml", "names": "n.yaml", "paid": "f.csv", "backtest": True,
            "keep": True, "ledger": "l.sqlite", "calibration": "new.calibration.json",
        },
    ),
    ("reconcile one.json", {"plan": "latest", "files": ["one.json"], "calibration": "calibration.json"}),
    ("calibrate a.json --inspect --goodput ttft:500ms --goodput-rule vllm", {
        "files": ["a.json"], "inspect": True, "goodput": "ttft:500ms", "goodput_rule": "vllm",
    }),
]  # fmt: skip

NO_REFUSALS = {typed.split(" ")[0] for typed, _ in ONLY_ASKED}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What a verb is asked, call by call."""
    monkeypatch.chdir(tmp_path)
    calls: list[dict[str, Any]] = []

    def stand_in(name: str) -> Any:
        signature = inspect.signature(getattr(verbs, name))

        def refuses(*given: Any, **named: Any) -> Refusal:
            bound = signature.bind(*given, **named)
            bound.apply_defaults()
            calls.append(bound.arguments)
            if name in NO_REFUSALS:
                raise InputError(field="verb", value=name, problem="was asked", fix="That is all.")
            return REFUSED

        return refuses

    for name in verbs.__all__:
        monkeypatch.setattr(verbs, name, stand_in(name))
    return calls


def plain(value: Any) -> Any:
    """Paths as texts, and tuples as lists."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def typed_words(typed: str, wanted: Mapping[str, Any]) -> list[str]:
    limit = ["--limit", "cpu=1min"] if "limit" in wanted else []
    return [*typed.split(" "), *COMMON.split(" "), *limit, "--quiet"]


@pytest.mark.parametrize(("typed", "wanted"), TYPED, ids=[typed[:20] for typed, _ in TYPED])
def test_what_is_typed_is_what_is_asked(
    typed: str, wanted: dict[str, Any], asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed_words(typed, wanted)) == ExitCode.REFUSED
    found = check_asked(typed, wanted, asked)
    assert not found.get("set")
    assert found.get("traffic") is None
    assert capsys.readouterr().out.startswith("REFUSED")


@pytest.mark.parametrize(("typed", "wanted"), ONLY_ASKED, ids=[typed[:20] for typed, _ in ONLY_ASKED])
def test_what_is_typed_is_asked_of_verbs_without_a_plan(
    typed: str, wanted: dict[str, Any], asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("below").mkdir()
    seed = ["--seed", "5", "--as-of", "2026-11-15"] if "seed" in wanted else []
    assert run([*typed.split(" "), *seed]) == ExitCode.WRONG_INPUT
    assert "was asked" in capsys.readouterr().err
    check_asked(typed, wanted, asked)


def check_asked(typed: str, wanted: Mapping[str, Any], asked: list[dict[str, Any]]) -> dict[str, Any]:
    """Every argument as it is wanted, and where nothing is typed as the verb has it by itself."""
    verb = typed.split(" ", 1)[0]
    (found,) = asked
    own = {name: each.default for name, each in inspect.signature(_verb(verb)).parameters.items()}
    for name, value in found.items():
        if name not in ("progress", "said", "stated", "set", "traffic", "bound"):
            expected = wanted.get(name, own[name])
            assert plain(value) == plain(expected) or (not value and not expected), name
    return found


def test_what_may_be_spent_on_measuring_is_typed_by_what_it_is(asked: list[dict[str, Any]]) -> None:
    run("measure http://r --plan p.yaml --minutes 3 --most-requests 4 --most-tokens 5 --most-usd 6".split(" "))
    bound = asked[0]["bound"]
    assert (bound.minutes, bound.requests, bound.tokens, bound.usd) == (3.0, 4, 5, 6.0)


def test_a_replica_and_its_load_are_simulated_as_typed(asked: list[dict[str, Any]]) -> None:
    typed = (
        "simulate --model m --device d --engine sglang --engine-version 1.2 --tp 2 --pp 3 --ep 4 --dp-attention 5"
        " --context 8k --kv-tokens 9000 --memory-fraction 80% --max-sequences 7 --token-budget 4096 --kv-dtype fp8"
        " --speculation ngram:3 --step-profile s.csv --beside 30% --calibration c.json --poll-steps 11"
        " --batch-wait-steps 12 --capacity-policy guaranteed:0.5 --max-output 700 --host-cache 64GB:20GB/s"
        " --replicas 13 --routing round_robin --router-refresh 2s --prefix-cache stated --between-turns kept"
        " --queue-limit 14 --timeout 30s --rate 15 --prompt-tokens 16 --output-tokens 17 --arrivals constant"
        " --lengths-from 50% --cached-share 20% --requests 18 --span 90s --column tenant=who --zone Europe/Berlin"
        " --prefill 2 --transfer 50GB/s --slo ttft_p95=1s --seed 5 --as-of 2026-11-15 --quiet"
    )
    assert run(typed.split(" ")) == ExitCode.REFUSED
    (found,) = asked
    replica = vars(found["replica"])
    assert plain(replica) == {
        "model": "m", "device": "d", "engine": "sglang", "engine_version": "1.2", "tp": 2, "pp": 3, "ep": 4,
        "dp_attention": 5, "memory_fraction": 0.8, "max_sequences": 7, "budget_tokens": 4096, "poll_steps": 11,
        "batch_wait_steps": 12, "capacity_policy": "guaranteed:0.5", "output_limit_tokens": 700,
        "max_context_tokens": 8_000, "kv_dtype": "fp8", "kv_tokens": 9000, "speculation": "ngram:3",
        "host_cache": "64GB:20GB/s", "neighbours_busy_fraction": 0.3, "step_profile": "s.csv", "calibration": "c.json",
    }  # fmt: skip
    pool = vars(found["pool"])
    assert pool == {
        "replicas": 13, "routing": "round_robin", "waiting_requests": 14, "timeout_s": 30.0, "refresh_s": 2.0,
        "prefix_cache": "stated", "between_turns": "kept",
    }  # fmt: skip
    (load,) = (each for name, each in found.items() if name not in ("replica", "pool") and hasattr(each, "rate_rps"))
    assert plain(vars(load)) == {
        "traces": [], "columns": [["tenant", "who"]], "zone": "Europe/Berlin", "prompt_tokens": 16,
        "output_tokens": 17, "arrivals": "constant", "rate_rps": 15.0, "traffic_ratio": 1.0, "span_s": 90.0,
        "load_tests": [], "clients": None, "request_count": 18, "least_fraction": 0.5, "cached_fraction": 0.2,
    }  # fmt: skip
    assert (found["prefill"], found["transfer"], plain(found["slos"])) == ("2", "50GB/s", ["ttft_p95=1s"])
    assert (found["as_of"], found["seed"]) == (DAY, 5)


def _verb(name: str) -> Any:
    return getattr(importlib.import_module(f"ullage.verbs.{name}"), name)


CHANGING = [each for each, _ in TYPED if each.split(" ")[0] not in ("compare", "report", "cost") or "--year" in each]


@pytest.mark.parametrize("typed", CHANGING, ids=[typed[:20] for typed in CHANGING])
def test_a_change_is_asked_beside_the_plan_as_it_is(typed: str, asked: list[dict[str, Any]]) -> None:
    run([*typed.split(" "), "--set", "pool.max_sequences=8", "--traffic", "x2", "--quiet"])
    changed, bare = asked[:2]
    assert (changed["set"], changed["traffic"]) == (["pool.max_sequences=8"], "x2")
    assert (plain(bare["set"]), bare["traffic"]) == ([], None)


def test_a_report_is_of_the_changed_plan_alone(asked: list[dict[str, Any]]) -> None:
    run(["report", "p.yaml", "--set", "pool.max_sequences=8", "--traffic", "x2", "--quiet", "--out", "new.html"])
    assert [(each["set"], each["traffic"]) for each in asked] == [(["pool.max_sequences=8"], "x2")]
    assert not Path("new.html").exists()


def test_a_gate_and_a_validation_read_both_sides_by_the_same_terms(asked: list[dict[str, Any]]) -> None:
    for verb in ("gate a.json b.json", "validate a.json"):
        run([*verb.split(" "), *"--cached-share 20% --replicas 2 --timeout 30s --accept x --quiet".split(" ")])
        stated = asked[-1]["stated"]
        assert (stated.cached_fraction, stated.replicas, stated.timeout_s) == (0.2, 2, 30.0)
        assert plain(stated.accepted) == ["x"]


@pytest.mark.parametrize("typed", [each for each, _ in TYPED], ids=[typed[:20] for typed, _ in TYPED])
def test_a_refusal_is_printed_as_it_was_asked_for(
    typed: str, asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As JSON its document, and on a terminal without colour where that is wanted."""
    words = [*typed.split(" "), "--quiet"]
    if typed.split(" ", maxsplit=1)[0] != "report":
        assert run([*words, "--json"]) == ExitCode.REFUSED
        assert json.loads(capsys.readouterr().out)["schema"] == "ullage.refusal/2"
    colours: list[bool] = []
    whole = terminal.answer

    def seen(*parts: Any, no_color: bool = False) -> None:
        colours.append(not no_color)
        whole(*parts, no_color=no_color)

    monkeypatch.setattr(terminal, "answer", seen)
    run(words)
    run([*words, "--no-color"])
    assert colours == [True, False]
    assert asked


@pytest.mark.parametrize(("verb", "listed"), [("emit", "keda"), ("drill", "queue-collapse"), ("check", "maximum-")])
def test_names_are_listed_without_a_plan(
    verb: str, listed: str, asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    command = importlib.import_module(f"ullage.cli.{verb}")
    whole, colours = command.answer, []

    def seen(*parts: Any, no_color: bool = False) -> None:
        colours.append(not no_color)
        whole(*parts, no_color=no_color)

    monkeypatch.setattr(command, "answer", seen)
    assert run([verb, "--list"]) == ExitCode.OK
    assert run([verb, "--list", "--no-color"]) == ExitCode.OK
    assert colours == [True, False]
    assert listed in capsys.readouterr().out
    assert asked == []
