"""Random plans, valid ones and ones with a key perturbed, put through a verb as its command line is.

A case is a plan file whose first line says which verb reads it: `# cost --quarter --json PLAN`. Words in capitals stand
for what only exists while the case runs: the plan, a folder to write to, the files that emit writes for this plan, and
CLUSTER-n, what a cluster runs.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import yaml

from support.built_page import is_built
from support.emitted import NAMES
from support.fuzz_clusters import CLUSTERS
from support.fuzz_mutations import ODD, placed_values
from support.fuzz_traces import DAY
from support.key_probes import BASES
from support.plan_laws import random_service
from ullage.cli.app import run
from ullage.emit.targets import TARGETS
from ullage.errors import ExitCode, InputError
from ullage.files.plan_file import plan_file_schema
from ullage.load.plan import load_plan

PACKAGES = (
    *(
        f"verbs/{each}.py"
        for each in ("brownfield", "buy", "check", "cost", "curve", "drill", "emit", "options", "plan")
    ),
    *("verbs/simulate.py", "verbs/size.py", "planning/checks", "emit", "cost"),
)
MOST_CPU_S = 60.0
"""Plans are simulated, with the lines counted that they reach; what is estimated above 20 s is refused."""
Node = dict[str, Any]
_SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "schemas"
_ALWAYS = ("--as-of", "2026-11-15", "--quiet")
_LIMIT = ("--limit", "cpu=20s,memory=2GiB")
# What a verb of one plan is asked, and how often: those that simulate for long are drawn rarely.
_ASKED = (
    *("check", "cost", "cost --quarter", "cost --by class", "cost --by class --rule shapley --idle spread") * 2,
    *("drill", "drill memory", "drill queue-collapse", "drill unit-economics", "drill quota", "drill retry-storm"),
    *("emit --target SOME -o OUT", "emit --target ALL -o OUT", "emit --target ALL --diff HERE") * 2,
    *("brownfield EMITTED", "brownfield CLUSTER") * 2,
    *("curve", "size", "size --rate '3 req/s'", "simulate", "cost --year", "cost --focus OUT.csv", "plan --quick"),
    *("buy", "cost --commit 1y-no-upfront", "cost --against openai/gpt-4o"),
    *(("report -o OUT.html",) if is_built else ()),
)
_SLOW = ("options", "risk", "plan --quick --all", "cost --marginal")
_SLOW_FRACTION = 0.03
# Targets that go together, for an engine that most plans run.
_ALL = ",".join(name for name in TARGETS if name not in ("keda", "sglang", "tensorrt-llm", "capacity-buffer"))
# Of the clusters, those whose pods or charts say which devices they hold.
_WITH_DEVICES = tuple(
    number for number, text in enumerate(CLUSTERS) if "nvidia.com/gpu" in text or "requestGPU" in text
)
_BY_OPTION = ("brownfield", "simulate")
_WITHOUT_JSON = ("report",)
_WITHOUT_LIMIT = ("simulate",)
_WITH_MARKDOWN = ("check", "plan")
# What a service, a class, a tenant or a region may be called.
_NAMES = (
    *("chat [v2]", "[/bold]", "a\nb", "=SUM(A1:A9)", "@SUM(1)", "-rf", "- item", "yes", "null", "1", "1e3", "~"),
    *("a: b", "{x}", "$(id)", "`id`", '"quoted"', "it's", "a#b", "# head", "a,b", "a|b", "Grüße", "漢字", "é\u202e"),
    *("x" * 63, "x" * 200, "UPPER_case", "a/b", "../up", "%s", "{{ .Values }}", "<b>", "a\\", "\x1b[31mred", " pad "),
    *("a-1", "n0", "on", "true", "off", "x" * 30),
)


# ---- what is asked ----------------------------------------------------------------------------------------------


def seeds() -> tuple[bytes, ...]:
    """A verb of each kind on a small plan, before random ones."""
    asked = ("check --json", "cost --json", "emit --target ALL -o OUT --json", "brownfield EMITTED --json", "size")
    plan = yaml.safe_dump(random_service(1), sort_keys=False)
    return tuple(f"# {_on_plan(each)}\n{plan}".encode() for each in asked)


def drawn(chance: Random) -> bytes:
    """A plan that could be somebody's, as a rule valid, and a question about it."""
    plan = copy.deepcopy(chance.choice(_bases()) if chance.random() < 0.6 else random_service(chance.randrange(10**6)))
    if chance.random() < 0.8:
        plan["emit"] = _names_to_emit(plan)
    for _ in range(chance.choice((0, 1, 2, 4))):
        plan = _changed(plan, _with_key, chance)
    if chance.random() < 0.4:
        plan = _changed(plan, _renamed, chance)
    if chance.random() < 0.2:
        holder, key = chance.choice(list(placed_values(plan)))
        holder[key] = chance.choice(ODD)
    return f"# {_question(chance)}\n{yaml.safe_dump(plan, sort_keys=False, allow_unicode=True)}".encode()


def _question(chance: Random) -> str:
    asked = chance.choice(_SLOW if chance.random() < _SLOW_FRACTION else _ASKED)
    asked = asked.replace("SOME", ",".join(chance.sample(sorted(TARGETS), chance.randint(1, 4))))
    asked = asked.replace("CLUSTER", f"CLUSTER-{chance.choice(_WITH_DEVICES)}")
    verb = asked.split()[0]
    if verb not in _WITHOUT_JSON and chance.random() < 0.6:
        asked += " --json"
    elif verb in _WITH_MARKDOWN and chance.random() < 0.5:
        asked += " --markdown"
    return _on_plan(asked)


def _on_plan(asked: str) -> str:
    verb, *options = asked.split(maxsplit=1)
    return " ".join((verb, "--plan PLAN" if verb in _BY_OPTION else "PLAN", *options))


# ---- plans ------------------------------------------------------------------------------------------------------


@functools.cache
def _bases() -> tuple[Node, ...]:
    """Plans of every kind that name no other file."""
    alone = [text for text in BASES.values() if not any(each in text for each in (".csv", ".json", ".log"))]
    return tuple(yaml.safe_load(each) for each in alone)


_schema = functools.cache(plan_file_schema)


def _resolved(node: Node) -> Node:
    """The part of the schema that a reference or the first branch of a choice stands for."""
    for _ in range(4):
        if "$ref" in node:
            node = _schema()["$defs"][node["$ref"].rsplit("/", 1)[-1]]
        elif "anyOf" in node:
            node = node["anyOf"][0]
    return node


def _changed(plan: Node, change: Callable[[Node, Random], Node], chance: Random) -> Node:
    """The plan with a change after which it is still read; where none is found, with none."""
    for _ in range(8):
        changed = change(copy.deepcopy(plan), chance)
        with contextlib.suppress(InputError):
            load_plan(copy.deepcopy(changed), as_of=DAY)
            return changed
    return plan


def _names_to_emit(plan: Node) -> Node:
    """What a plan cannot know and manifests need, for every pool."""
    found: Node = yaml.safe_load(NAMES)
    workload = found["workloads"]["pool"]
    pools = [each["name"] for each in plan.get("pools", ({"name": "pool"},))]
    found["workloads"] = {name: {**workload, "name": f"chat-{place}"} for place, name in enumerate(pools)}
    return found


def _with_key(plan: Node, chance: Random) -> Node:
    """One more key, in a section that is there or a new one."""
    holder, key, node = chance.choice(list(_absent(plan, _schema())))
    holder[key] = _example(node, chance, tuple(_own_names(plan)))
    return plan


def _own_names(plan: Node) -> list[str]:
    return sorted({str(holder[key]) for holder, key in placed_values(plan) if key in ("name", "service", "namespace")})


def _absent(value: Any, node: Node) -> Iterator[tuple[Node, str, Node]]:
    found = _resolved(node)
    if isinstance(value, dict):
        keys = found.get("properties", {})
        yield from ((value, key, each) for key, each in keys.items() if key not in value)
        for key, each in value.items():
            yield from _absent(each, keys.get(key) or found.get("additionalProperties") or {})
    elif isinstance(value, list):
        for each in value:
            yield from _absent(each, found.get("items") or {})


def _example(node: Node, chance: Random, names: tuple[str, ...], depth: int = 0) -> Any:
    """A value that the schema allows here, of a size that its example has or of another."""
    found = _resolved(node)
    if "properties" in found and depth < 5:
        needed = found.get("required", ())
        return {
            key: _example(each, chance, names, depth + 1)
            for key, each in found["properties"].items()
            if key in needed or chance.random() < 0.15
        }
    if found.get("type") == "array":
        return [_example(found.get("items") or {}, chance, names, depth + 1)]
    if found.get("type") == "object":
        return {chance.choice(names): _example(found.get("additionalProperties") or {}, chance, names, depth + 1)}
    if found.get("type") == "boolean":
        return chance.choice((True, False))
    shown = [each for each in found.get("enum") or found.get("examples") or () if each is not None]
    if shown:
        example = chance.choice(shown)
        return chance.choice(_LIKE.get(str(example), (example,)))
    # What may stand here is a name of the plan, or a word that the key's description lists.
    words = re.findall(r"[a-z\d][\w.-]+", str(node.get("description", "")))
    return chance.choice((*names, *_KNOWN) if chance.random() < 0.5 or not words else words)


_KNOWN = ("h100-sxm", "l40s", "llama-3.1-8b", "aws", "us-east-1", "2026-12-01", "2026-11-20")
# Beside the example of a unit other values of it, the ends of what is plausible among them.
_LIKE: dict[str, tuple[object, ...]] = {
    "95%": ("0%", "0.1%", "1%", "30%", "50%", "95%", "99.9%", "100%"),
    "500ms": ("1ms", "500ms", "1s", "5min", "1h", "1d", "30d", "365d"),
    "2": (1, 2, 3, 8, 1000),
    "12 req/s": ("0.001 req/s", "1 req/min", "12 req/s", "300 req/s"),
}


def _renamed(plan: Node, chance: Random) -> Node:
    """The same plan with another name for one thing, wherever it is meant."""
    old, new = chance.choice(_own_names(plan)), chance.choice(_NAMES)

    def change(value: Any) -> Any:
        if isinstance(value, dict):
            return {change(key): change(each) for key, each in value.items()}
        if isinstance(value, list):
            return [change(each) for each in value]
        return new if value == old else value

    found: Node = change(plan)
    return found


# ---- how it is asked, and what is held of the answer ------------------------------------------------------------


def read(file: Path) -> None:
    """Ask as a command line does. A refusal is raised as one; what no ending may look like is an assertion."""
    first = file.read_text().partition("\n")[0]
    folder = file.with_name("made")
    folder.mkdir()
    try:
        asked = [word for each in shlex.split(first.removeprefix("#")) for word in _words(each, file, folder)]
        _hold(asked)
        for each in folder.rglob("*.yaml"):
            list(yaml.safe_load_all(each.read_text()))
        for each in folder.rglob("*.json"):
            json.loads(each.read_text(), parse_constant=_not_json)
    finally:
        shutil.rmtree(folder)


def _words(word: str, file: Path, folder: Path) -> list[str]:
    """What stands for a word of the question."""
    if word.startswith("CLUSTER-"):
        return [_cluster(int(word.removeprefix("CLUSTER-")), folder)]
    if word == "EMITTED":
        _hold(["emit", str(file), "--target", "deployment,keda", "-o", str(folder / "emitted")])
        # A plan that is refused has no files; it is compared with another cluster, and refused there too.
        return [str(each) for each in sorted((folder / "emitted").rglob("*.yaml"))] or [_cluster(0, folder)]
    known = {"PLAN": str(file), "ALL": _ALL, "HERE": str(folder)}
    return [known.get(word, word.replace("OUT", str(folder / "out")))]


def _cluster(number: int, folder: Path) -> str:
    file = folder / "running.yaml"
    file.write_text(CLUSTERS[number])
    return str(file)


def _hold(asked: list[str]) -> None:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*asked, *_ALWAYS, *(() if asked[0] in _WITHOUT_LIMIT else _LIMIT)])
    said, blamed = out.getvalue(), err.getvalue()
    if code == ExitCode.WRONG_INPUT:
        assert not said, f"a wrong input, and yet an answer: {said[:200]}"
        assert blamed.startswith("error: "), blamed
        assert blamed.count("\n") == 1, f"more than one line: {blamed}"
        raise _RefusedError(blamed.removeprefix("error: ").rstrip())
    assert code in (ExitCode.OK, ExitCode.REFUSED), f"{asked[0]}: exit {code}: {blamed}"
    assert not blamed, f"{asked[0]}: --quiet, and yet on stderr: {blamed}"
    assert "\x1b" not in said, f"{asked[0]}: an escape reached the terminal"
    if "--json" in asked:
        _validator(asked[0]).validate(json.loads(said, parse_constant=_not_json))


class _RefusedError(InputError):
    """What the command line said of a wrong input."""

    def __init__(self, line: str) -> None:
        Exception.__init__(self, line)


def _not_json(constant: str) -> None:
    raise AssertionError(f"{constant} is no number of JSON")


@functools.cache
def _validator(verb: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((_SCHEMAS / f"{verb}.schema.json").read_text()))
