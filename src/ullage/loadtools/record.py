"""A measurement on disk: which tests were begun and how each ended, whole after every one, so that it goes on later."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ullage.errors import InputError
from ullage.files.whole import write_whole
from ullage.load.texts import read_json
from ullage.service.measuring.planned_test import PlannedTest, TestShape

STATE_FILE = "measure.json"
_SCHEMA = "ullage.measure-state/1"
RUNNING, DONE, FAILED = "running", "done", "failed"


@dataclass(frozen=True, kw_only=True)
class TestRecord:
    """One test that was begun. Of one that never ended, its time is what it was expected to take."""

    __test__ = False

    name: str
    shape: str
    rate_rps: float
    requests: int
    seed: int
    tokens: int
    wall_s: float
    status: str
    file: str = ""

    @property
    def planned(self) -> PlannedTest:
        return PlannedTest(
            name=self.name,
            shape=TestShape(self.shape),
            rate_rps=self.rate_rps,
            requests=self.requests,
            seed=self.seed,
        )


@dataclass(frozen=True, kw_only=True)
class MeasureRecord:
    """All tests of one measurement, and of what: another address, tool, model or pool is another measurement."""

    url: str
    tool: str
    model: str
    pool: str
    tests: tuple[TestRecord, ...] = ()

    def with_test(self, test: TestRecord) -> MeasureRecord:
        """With one more test, or with the same one as it ended."""
        others = tuple(each for each in self.tests if each.name != test.name or each.status != RUNNING)
        return replace(self, tests=(*others, test))


def read_record(folder: Path, fresh: MeasureRecord) -> MeasureRecord:
    """What was measured before in this folder, where it is the same measurement; the fresh one where nothing was."""
    file = folder / STATE_FILE
    if not file.exists():
        return fresh
    fix = "Give another --folder, or remove the file to start over."
    content = read_json(file, field="--folder", fix=fix)
    try:
        assert isinstance(content, dict)
        assert content.pop("schema", None) == _SCHEMA
        found = TypeAdapter(MeasureRecord).validate_python(content)
    except (ValidationError, AssertionError):
        raise InputError(
            field="--folder", value=str(file), problem="is not the state of a measurement", fix=fix
        ) from None
    for name in ("url", "tool", "model", "pool"):
        was, now = getattr(found, name), getattr(fresh, name)
        if was != now:
            raise InputError(
                field="--folder",
                value=str(file),
                problem=f"is of another measurement: {name} {was}, not {now}",
                fix=fix,
            )
    return found


def write_record(folder: Path, record: MeasureRecord) -> None:
    text = json.dumps({"schema": _SCHEMA, **asdict(record)}, indent=1)
    write_whole(folder / STATE_FILE, f"{text}\n", field="--folder", force=True)
