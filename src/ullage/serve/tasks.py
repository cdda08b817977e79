"""A request done, in the process that was made for it: checked, asked of the verb, and its ending as bytes.

The working folder is the request's own. A plan that came as text lies in it as `plan.yaml`: messages have lines.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage.errors import InputError, InternalError, Rejection
from ullage.execute.run import Progress
from ullage.serve.disk import write_plan
from ullage.serve.plan_guard import check_model, check_plan
from ullage.serve.problems import ServedProblem, internal, wrong_input

if TYPE_CHECKING:
    from ullage.load.changes import Changes

ANSWER, TEXT, PROBLEM = "answer", "text", "problem"
PARQUET = "parquet"
"""A task of the service's own: how much an upload unpacks to, read where a damaged one does no harm."""
# As deep as the documents of the package may be nested (documents.py).
_MOST_LEVELS = 64
_PLAN_FILE = "plan.yaml"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request in its process."""

    request: Mapping[str, Any]
    uploads: frozenset[str]
    ledger: str | None
    prometheus: str | None
    http_config: str | None
    workers: int
    report: Progress

    @property
    def as_of(self) -> datetime.date:
        return datetime.date.fromisoformat(self.request["as_of"])

    def some(self, *names: str) -> dict[str, Any]:
        """These members of the request by the same names."""
        return {name: self.request[name] for name in names}

    def source(self, name: str = "plan", *, file: str = _PLAN_FILE) -> Any:
        """The plan of the request, a file in the working folder, a mapping or None, checked for files that it names."""
        given = self.request.get(name)
        _check_levels(given)
        if isinstance(given, str):
            write_plan(file, given)
            given = file
        self.check(given)
        return given

    def check(self, source: Any, more: Changes | None = None) -> None:
        """Refuse files that the plan names after the request's changes, and after `more` of them."""
        from ullage.load.changes import both, parse_changes
        from ullage.load.plan import plan_document

        changes = parse_changes(self.request.get("set") or (), None)
        # Read as the verb reads it, so that nothing but what was checked is ever used.
        check_plan(plan_document(source, changes if more is None else both(changes, more)).content, self.uploads)

    def planned(self, verb: Callable[..., Any], *names: str, keyword: str = "source", **more: Any) -> Any:
        """A verb of a plan, asked with the changes, or twice where both answers are wanted."""
        from ullage.verbs.what_if import what_if

        ask = partial(
            verb,
            **{keyword: self.source()},
            as_of=self.as_of,
            **self.some("seed", *names),
            **more,
        )
        changes = {"set": self.request["set"], "traffic": self.request["traffic"]}
        return what_if(ask, **changes) if self.request["what_if"] else ask(**changes)

    @property
    def running(self) -> dict[str, Any]:
        """What the verbs that plan take beside their question."""
        return {"limit": self.request.get("limit"), "workers": self.workers, "progress": self.report}


def perform(task: Mapping[str, Any], report: Progress) -> tuple[str, bytes]:
    """The ending of a task: an answer's JSON, a text, or a problem."""
    from ullage.report.encode import to_text
    from ullage.verbs.what_if import last

    asked = Asked(
        request=task["request"],
        uploads=frozenset(task.get("uploads", ())),
        ledger=task.get("ledger"),
        prometheus=task.get("prometheus"),
        http_config=task.get("http_config"),
        workers=int(task.get("workers", 1)),
        report=report,
    )
    try:
        found = TASKS[task["verb"]](asked)
        if isinstance(found, str):
            return TEXT, found.encode()
        if isinstance(found, dict):
            return ANSWER, to_text(found).encode()
        done = last(found)
        refused = done if isinstance(done, Rejection) else getattr(done, "found", None)
        if isinstance(refused, Rejection):
            return _problem(refusal_problem(refused))
        return ANSWER, to_text(found.to_dict()).encode()
    except InputError as error:
        return _problem(wrong_input(error))
    except OSError as error:
        return _problem(wrong_input(_unreadable(error)))
    except (RecursionError, OverflowError, UnicodeError) as error:
        fix = "Give plain text, nested no deeper than a plan needs."
        named = type(error).__name__
        return _problem(wrong_input(InputError(field="request", value=named, problem="cannot be read", fix=fix)))
    except MemoryError:
        return _problem(ServedProblem(name="too-much", detail="Not enough memory for what this input asks for."))
    except (InternalError, Exception) as error:  # noqa: BLE001 - the last resort: a problem, never a traceback
        return _problem(internal(error))


def refusal_problem(refused: Rejection) -> ServedProblem:
    """A refused plan, with the document that the command line prints."""
    from ullage.report.encode import refusal_json

    return ServedProblem(name="refused", detail=f"{refused.stage}: {refused.reason}", members=refusal_json(refused))


def _problem(problem: ServedProblem) -> tuple[str, bytes]:
    return PROBLEM, problem.body()


def _unreadable(error: OSError) -> InputError:
    reason = (error.strerror or "cannot be read").lower()
    return InputError(
        field="file", value=Path(str(error.filename)).name, problem=reason, fix="Upload it first (POST /v1/uploads)."
    )


def _check_levels(value: Any) -> None:
    """A request's object is no deeper than a file may be."""
    level: list[Any] = [value]
    for _ in range(_MOST_LEVELS):
        level = [
            one
            for each in level
            for one in (each.values() if isinstance(each, dict) else each if isinstance(each, list) else ())
        ]
        if not level:
            return
    fix = "Nest it no deeper than a plan needs."
    raise InputError(field="plan", value="its depth", problem=f"is nested deeper than {_MOST_LEVELS} levels", fix=fix)


# ---- verbs ------------------------------------------------------------------------------------------------------


def _evaluate(asked: Asked) -> Any:
    from ullage.execute.run import running
    from ullage.load.changes import parse_changes
    from ullage.load.located import located
    from ullage.load.plan import load_plan, plan_document
    from ullage.planning.estimate import estimate_plan
    from ullage.report.encode import document
    from ullage.verbs.answer import refusal

    source, seed = asked.source(), asked.request["seed"]
    changes = parse_changes(asked.request["set"], asked.request["traffic"])
    spec = load_plan(source, as_of=asked.as_of, seed=seed, changes=changes)
    with located(lambda: plan_document(source, changes)), running(as_of=asked.as_of, seed=seed, workers=1) as run:
        found = estimate_plan(spec, as_of=run.as_of, seed=seed, map=run.map)
    if isinstance(found, Rejection):
        return refusal(found)
    return document("evaluate", found, as_of=found.as_of, seed=seed, service=found.service)


def _parquet(asked: Asked) -> dict[str, Any]:
    import duckdb

    rows_of = "SELECT DISTINCT row_group_id, row_group_num_rows AS rows FROM parquet_metadata(?)"
    try:
        with duckdb.connect(config={"threads": "1"}) as connection:
            file = [asked.request["file"]]
            size = connection.execute("SELECT sum(total_uncompressed_size) FROM parquet_metadata(?)", file).fetchone()
            rows = connection.execute(f"SELECT sum(rows) FROM ({rows_of})", file).fetchone()
    except duckdb.Error:
        raise InputError(field="upload", value=file[0], problem="is not Parquet", fix="Send it again.") from None
    return {"bytes": int((size or [0])[0] or 0), "rows": int((rows or [0])[0] or 0)}


def _plan(asked: Asked) -> Any:
    from ullage import verbs
    from ullage.load.changes import parse_changes
    from ullage.verbs.ledger import keep_plan
    from ullage.verbs.what_if import last

    found = asked.planned(verbs.plan, "quick", **asked.running)
    plan = last(found)
    if asked.request["keep"] and not isinstance(plan, Rejection):
        changes = parse_changes(asked.request["set"], asked.request["traffic"])
        keep_plan(plan, asked.source(), changes, ledger=_ledger(asked))
    return found


def _options(asked: Asked) -> Any:
    from ullage import verbs

    return asked.planned(verbs.options, "limit", workers=asked.workers)


def _planning(name: str, *names: str) -> Callable[[Asked], Any]:
    """A verb whose keywords are the request's members."""

    def task(asked: Asked) -> Any:
        from ullage import verbs

        return asked.planned(getattr(verbs, name), *names, **asked.running)

    return task


def _scenarios(asked: Asked) -> Any:
    from ullage import verbs
    from ullage.verbs.scenarios import own_future

    source = asked.source()
    for each in asked.request["own"]:
        asked.check(source, own_future(each)[1])
    return asked.planned(verbs.scenarios, "own", **asked.running)


def _cost(asked: Asked) -> Any:
    from ullage import verbs

    names = ("by", "rule", "basis", "idle", "spread_rule", "allotted", "known", "usage", "columns")
    before = None if asked.request["before"] is None else asked.source("before", file="before.yaml")
    return asked.planned(
        verbs.cost, *names, "against", "marginal", "commit", "months", "fleet", before=before, **asked.running
    )


def _brownfield(asked: Asked) -> Any:
    from ullage import verbs

    return asked.planned(partial(verbs.brownfield, asked.request["files"]), keyword="plan", **asked.running)


def _compare(asked: Asked) -> Any:
    from ullage import verbs

    sides = [
        asked.source(each, file=f"{each}.yaml")
        if asked.request[f"{each}_saved"] is None
        else _saved(asked.request[f"{each}_saved"])
        for each in ("old", "new")
    ]
    return verbs.compare(*sides, as_of=asked.as_of, seed=asked.request["seed"], **asked.running)


def _saved(upload: str) -> str:
    """An upload that is a plan's JSON. A plan file would be planned, and nobody has looked at the files it names."""
    from ullage.load.texts import read_text

    if not read_text(Path(upload), fix="Upload what plan answered.").lstrip().startswith("{"):
        fix = "Upload what plan answered, or send a plan file as old or new."
        raise InputError(field="saved", value=upload, problem="is not the JSON of a plan", fix=fix)
    return upload


def _memory(asked: Asked) -> Any:
    from ullage import verbs
    from ullage.load.typed import parse_share, parse_tokens

    given = asked.request
    check_model("model", given["model"], asked.uploads)
    return verbs.memory(
        given["model"],
        as_of=asked.as_of,
        version=given["engine_version"],
        memory_fraction=parse_share(given["memory_fraction"], "memory_fraction"),
        step_tokens=parse_tokens(given["token_budget"], "token_budget"),
        max_context_tokens=parse_tokens(given["context"], "context"),
        **asked.some("device", "tp", "pp", "ep", "dp_attention", "concurrency", "engine_logs", "engine"),
        **asked.some("max_sequences", "kv_dtype"),
    )


def _facts(asked: Asked) -> Any:
    from ullage import verbs

    return verbs.facts(asked.request["kind"], asked.request["name"], as_of=asked.as_of)


def _profile(asked: Asked) -> Any:
    from ullage import verbs

    names = ("columns", "format_name", "zone")
    return verbs.profile(asked.request["traces"], as_of=asked.as_of, progress=asked.report, **asked.some(*names))


def _forecast(asked: Asked) -> Any:
    from ullage import verbs
    from ullage.units import DURATION, FRACTION, parse

    given = asked.request
    return verbs.forecast(
        given["source"],
        horizon_s=parse(given["horizon"], DURATION, field="horizon"),
        step_s=None if given["step"] is None else parse(given["step"], DURATION, field="step"),
        percentile_fraction=parse(given["percentile"], FRACTION, field="percentile"),
        as_of=asked.as_of,
        progress=asked.report,
        **asked.some("events", "by", "columns", "format_name", "zone", "seed"),
    )


def _calibrate(asked: Asked) -> Any:
    from ullage import verbs
    from ullage.load.typed import parse_tokens
    from ullage.verbs.calibrate_fit import fit_calibration

    given = asked.request
    if given["inspect"] or given["model"] is None or given["device"] is None:
        return verbs.calibrate(given["files"], **asked.some("inspect", "goodput", "goodput_rule"))
    check_model("model", given["model"], asked.uploads)
    return fit_calibration(
        given["files"],
        budget_tokens=parse_tokens(given["token_budget"], "token_budget"),
        stated=_stated(asked),
        as_of=asked.as_of,
        **asked.some("model", "device", "engine", "tp", "pp", "ep", "dp_attention", "kv_tokens", "max_sequences"),
        output_limit_tokens=parse_tokens(given["max_output"], "max_output"),
        **asked.some("engine_version", "kv_dtype", "poll_steps", "batch_wait_steps", "prefill", "transfer"),
        **asked.some("capacity_policy"),
    )


def _stated(asked: Asked) -> Any:
    """What a request states of load tests, over what their files say."""
    from ullage.load.typed import parse_duration, parse_share
    from ullage.verbs.calibrate_fit import StatedTest

    given = asked.request
    return StatedTest(
        cached_fraction=parse_share(given["cached_share"], "cached_share"),
        replicas=given["replicas"],
        timeout_s=parse_duration(given["timeout"], "timeout"),
        accepted=tuple(given["accept"]),
    )


def _gate(asked: Asked) -> Any:
    from ullage import verbs
    from ullage.load.typed import parse_share

    given = asked.request
    verb = partial(verbs.gate, given["before"], given["after"], stated=_stated(asked), quick=given["no_replicas"])
    tolerance = parse_share(given["tolerance"], "tolerance") or 0.0
    more = {"workers": asked.workers, "progress": asked.report}
    return asked.planned(verb, "limit", keyword="plan", tolerance_fraction=tolerance, **more)


def _validate(asked: Asked) -> Any:
    from ullage import verbs

    verb = partial(verbs.validate, asked.request["files"], stated=_stated(asked))
    return asked.planned(verb, "calibration", keyword="plan", progress=asked.report)


def _init(asked: Asked) -> str:
    from ullage import verbs

    if asked.request["model"] is not None:
        check_model("model", asked.request["model"], asked.uploads)
    names = ("model", "device", "traces", "profile", "load_tests", "engine_logs", "service")
    return verbs.init(as_of=asked.as_of, **asked.some(*names))


def _simulate(asked: Asked) -> Any:
    from ullage import verbs
    from ullage.load.pool import ReplicaChoice
    from ullage.load.typed import parse_duration, parse_rate, parse_share, parse_tokens
    from ullage.service.served import ServedPool
    from ullage.verbs.simulate import LoadChoice

    given = asked.request
    if given["model"] is not None:
        check_model("model", given["model"], asked.uploads)
    # The model that drafts is named at the end of the text, and may be no path either.
    check_model("speculation", (given["speculation"] or "").partition("@")[2], asked.uploads)
    replica = ReplicaChoice(
        budget_tokens=parse_tokens(given["token_budget"], "token_budget"),
        max_context_tokens=parse_tokens(given["context"], "context"),
        calibration=None if given["calibration"] is None else Path(given["calibration"]),
        **asked.some("model", "device", "engine", "tp", "pp", "ep", "dp_attention", "max_sequences"),
        output_limit_tokens=parse_tokens(given["max_output"], "max_output"),
        **asked.some("engine_version", "kv_dtype", "kv_tokens", "speculation", "poll_steps", "batch_wait_steps"),
        **asked.some("host_cache"),
        **asked.some("capacity_policy"),
    )
    load = LoadChoice(
        traces=tuple(given["traces"]),
        load_tests=tuple(given["load_tests"]),
        columns=tuple((given["columns"] or {}).items()),
        rate_rps=parse_rate(given["rate"]),
        span_s=parse_duration(given["span"], "span"),
        request_count=given["requests"],
        cached_fraction=parse_share(given["cached_share"], "cached_share"),
        **asked.some("zone", "prompt_tokens", "output_tokens", "arrivals", "clients"),
    )
    pool = ServedPool(
        replicas=given["replicas"],
        routing=given["routing"],
        waiting_requests=given["queue_limit"],
        timeout_s=parse_duration(given["timeout"], "timeout"),
        refresh_s=parse_duration(given["router_refresh"], "router_refresh") or 0.0,
        prefix_cache=given["prefix_cache"],
        between_turns=given["between_turns"],
    )
    apart = asked.some("prefill", "transfer")
    verb = partial(verbs.simulate, load, replica=replica, pool=pool, **apart)
    return asked.planned(verb, "slos", keyword="plan", progress=asked.report)


def _reconcile(asked: Asked) -> Any:
    from ullage import verbs

    given = asked.request
    return verbs.reconcile(
        given["plan"],
        **_production(asked),
        ledger=_ledger(asked),
        workers=asked.workers,
        progress=asked.report,
        **asked.some("paid", "keep", "backtest"),
    )


def _shadow(asked: Asked) -> Any:
    from ullage import verbs

    verb = partial(verbs.shadow, **_production(asked))
    more = {"workers": asked.workers, "progress": asked.report}
    return asked.planned(verb, "rules", "limit", keyword="plan", **more)


def _production(asked: Asked) -> dict[str, Any]:
    """Where production is read from: uploads, or the one Prometheus that the service was started with."""
    given = asked.request
    if given["from_prometheus"] and asked.prometheus is None:
        fix = "Ask whoever runs it to start it with --prometheus, or upload answers of range queries."
        raise InputError(field="from_prometheus", value=True, problem="this service knows no Prometheus", fix=fix)
    return {
        "prometheus": asked.prometheus if given["from_prometheus"] else None,
        "http_config": asked.http_config if given["from_prometheus"] else None,
        "from_": given["since"],
        **asked.some("files", "names", "until"),
    }


def _kept(asked: Asked) -> Any:
    from ullage import verbs

    return verbs.ledger(
        asked.request["action"],
        asked.request["names"],
        ledger=_ledger(asked),
        **asked.some("kind", "service", "most"),
    )


def _ledger(asked: Asked) -> str:
    if asked.ledger is None:
        fix = "Ask whoever runs it to start it with --ledger."
        raise InputError(field="ledger", value=None, problem="this service keeps none", fix=fix)
    from ullage.ledger.ledger import opened

    with opened(asked.ledger, create=True):
        # Nothing was kept yet, and that is an answer too.
        pass
    return asked.ledger


TASKS: dict[str, Callable[[Asked], Any]] = {
    "evaluate": _evaluate,
    PARQUET: _parquet,
    "plan": _plan,
    "init": _init,
    "options": _options,
    "risk": _planning("risk", "bad_hour"),
    "scenarios": _scenarios,
    "brownfield": _brownfield,
    "check": _planning("check", "names", "rules"),
    "drill": _planning("drill", "names"),
    "emit": _planning("emit", "targets", "searched"),
    "scale": _planning("scale", "rules", "days", "weeks"),
    "compare": _compare,
    "reconcile": _reconcile,
    "ledger": _kept,
    "facts": _facts,
    "profile": _profile,
    "forecast": _forecast,
    "validate": _validate,
    "gate": _gate,
    "shadow": _shadow,
    "calibrate": _calibrate,
    "memory": _memory,
    "curve": _planning("curve", "slos", "definitions", "calibration", "beside", "margin", "sensitivity", "measured"),
    "simulate": _simulate,
    "size": _planning("size", "rate", "slos", "definitions", "calibration", "beside"),
    "cost": _cost,
    "buy": _planning("buy", "fleet", "months", "regret"),
}
"""What is done for each verb; `evaluate` is a first look and no verb of the command line."""
