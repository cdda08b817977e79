"""No key of a plan opens a file that is not the request's own, whichever key it is and however it is spelt."""

from __future__ import annotations

import contextlib
import copy
import datetime
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from ullage.errors import InputError, UllageError
from ullage.files.plan_file import key_rows
from ullage.load.plan import load_plan
from ullage.serve.plan_guard import FILE_KEYS, FOLDER_KEYS, MODEL_KEYS, check_plan, named_uploads
from ullage.serve.tasks import perform

UPLOADED = "u" + "ab" * 16 + ".csv"
opened: list[str] = []
"""Files that anything in this process opened since it was last cleared; an audit hook stays for good."""
sys.addaudithook(lambda event, said: opened.append(str(said[0])) if event == "open" and len(opened) < 10**4 else None)
EXAMPLE = yaml.safe_load((files("ullage.files") / "example.yaml").read_text(encoding="utf-8"))
PATHS = (
    "/etc/passwd", "../../etc/passwd", "./plan.yaml", "~/x", "logs/*.csv", "file:///etc/passwd", "s3://bucket/x",
    "http://169.254.169.254/latest/meta-data", "\\\\host\\share", "/proc/self/environ",
)  # fmt: skip


def with_key(key: str, value: Any) -> dict[str, Any]:
    """The example with this key; a list of pools stands in for the only one where the key is of one."""
    found: dict[str, Any] = copy.deepcopy(EXAMPLE)
    if key.startswith("pools."):
        found["pools"] = [found.pop("pool")]
    place: Any = found
    *way, last = key.split(".")
    for each in way:
        place = place.setdefault(each, [{}] if each in ("files",) else {})
        place = place[0] if isinstance(place, list) else place
    place[last] = value
    return found


@pytest.mark.parametrize("key", sorted(FILE_KEYS | FOLDER_KEYS))
def test_a_key_that_names_a_file_takes_uploads_alone(key: str) -> None:
    for path in PATHS:
        for value in (path, [path], [UPLOADED, path]):
            with pytest.raises(InputError, match="request has no"):
                check_plan(with_key(key, value), frozenset({UPLOADED}))
    if key not in FOLDER_KEYS:
        check_plan(with_key(key, [UPLOADED]), frozenset({UPLOADED}))
        with pytest.raises(InputError, match="not an upload of yours"):
            check_plan(with_key(key, [UPLOADED]), frozenset())


@pytest.mark.parametrize("key", sorted(MODEL_KEYS))
def test_a_model_is_a_name_or_an_upload(key: str) -> None:
    for name in ("qwen3-32b", "meta-llama/Llama-3.1-8B", UPLOADED):
        check_plan(with_key(key, name), frozenset({UPLOADED}))
    for path in ("/etc/passwd", "../x", "a/../../x", "config.json", "~root", "a/./b"):
        with pytest.raises(InputError, match="is a path"):
            check_plan(with_key(key, path), frozenset({UPLOADED}))


def _plans(value: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The example with this text at every key that takes one, by itself, in a list and in a mapping."""
    example = copy.deepcopy(EXAMPLE)
    # A key is read where those beside it are there.
    example["pool"]["speculation"] = {"method": "draft", "tokens": 1, "acceptance": ["80%"], "draft": "llama-3.1-8b"}
    for row in key_rows():
        if "text" not in row.kind:
            continue
        for path in {row.path, row.path.replace("pool.", "pools[].", 1)}:
            for given in (value, [value], {"pool": value}, {"pool": [value]}):
                yield row.path, _put(copy.deepcopy(example), path, given)


def _put(plan: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    if path.startswith("pools"):
        plan["pools"] = [plan.pop("pool")]
    place: Any = plan
    *way, last = path.split(".")
    for each in way:
        name = each.rstrip("[]{}")
        found = place.setdefault(name, [{}] if each.endswith("[]") else {})
        if each.endswith("{}"):
            found = found.setdefault("pool", {})
        place = found[0] if isinstance(found, list) else found
    place[last] = value
    return plan


@pytest.mark.slow
def test_nothing_is_opened_by_any_key_that_the_guard_lets_pass(tmp_path: Path) -> None:
    """Every key of the plan file in turn names a file that is there; who opens it is caught by the interpreter."""
    canary = tmp_path / "canary.csv"
    canary.write_text("arrival_s,prompt_tokens,output_tokens\n0,1,1\n")
    day = datetime.date(2026, 11, 15)
    load_plan(None, as_of=day)
    passed, tried = 0, 0
    for key, plan in _plans(str(canary)):
        tried += 1
        opened.clear()
        with contextlib.suppress(UllageError, OSError, ValueError, TypeError, AttributeError, KeyError):
            check_plan(plan, frozenset())
            passed += 1
            load_plan(plan, as_of=day)
        assert str(canary) not in opened, key
    assert passed > 0.9 * tried > 400
    # The hook does see who opens it.
    with contextlib.suppress(UllageError):
        load_plan(with_key("workload.trace", [str(canary)]), as_of=day)
    assert str(canary) in opened


JAILED = """
import sys
from pathlib import Path
from ullage.serve.jail import put_on
folder, outside = Path(sys.argv[1]), sys.argv[2]
(folder / "own.txt").write_text("ours")
import socket, subprocess, os, urllib.request
put_on(folder)
tries = {
    "own": lambda: (folder / "own.txt").read_text(),
    "outside": lambda: open(outside).read(),
    "climb": lambda: open(f"{folder}/../{Path(outside).name}").read(),
    "link": lambda: open(folder / "link").read(),
    "list": lambda: os.listdir(Path(outside).parent),
    "write": lambda: open(f"{outside}.new", "w").close(),
    "remove": lambda: os.remove(outside),
    "connect": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
    "resolve": lambda: socket.getaddrinfo("metadata.internal", 80),
    "fetch": lambda: urllib.request.urlopen("http://169.254.169.254/", timeout=1),
    "shell": lambda: subprocess.run(["true"]),
    "system": lambda: os.system("true"),
    "environment": lambda: open("/proc/self/environ").read(),
    "keys": lambda: os.listdir("/etc/ssl/private"),
}
for name, attempt in tries.items():
    try:
        attempt()
        print(name, "done")
    except BaseException as error:
        print(name, type(error).__name__, type(getattr(error, "reason", None)).__name__)
"""


def test_a_jailed_process_reaches_its_own_folder_and_nothing_else(tmp_path: Path) -> None:
    outside, folder = tmp_path / "secret.txt", tmp_path / "own"
    outside.write_text("theirs")
    folder.mkdir()
    (folder / "link").symlink_to(outside)
    ran = subprocess.run(
        [sys.executable, "-P", "-c", JAILED, str(folder), str(outside)],
        capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    found = dict(line.split(" ", 1) for line in ran.stdout.splitlines())
    assert found.pop("own") == "done"
    assert len(found) == 13
    assert {name for name, said in found.items() if "JailError" not in said} == set(), ran.stdout
    assert outside.read_text() == "theirs"


@pytest.mark.parametrize("value", PATHS)
def test_one_s_own_scenario_names_uploads_alone(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    request: dict[str, Any] = {"plan": None, "set": {}, "traffic": None, "own": [f"launch: workload.trace=[{value}]"]}
    kind, said = perform({"verb": "scenarios", "request": request}, lambda _fraction, _stage="", /: None)
    assert kind == "problem"
    assert "is a path, and a request has no files" in said.decode()


def test_uploads_are_found_wherever_a_request_names_them() -> None:
    other = "u" + "cd" * 16
    assert named_uploads({"a": [{"b": f"trace: [{UPLOADED}]"}], other: 1}) == {UPLOADED, other}
    assert named_uploads({"a": "u12"}) == frozenset()
