"""Every reader keeps the same SLOs: it reads its own file, and refuses the others by name."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.engine_logs import GOOD_AND_CUT
from ullage.errors import InputError
from ullage.evidence import Evidence, Source, walk
from ullage.memory.engine_report import QUANTITIES
from ullage.readers.engines import ENGINE_READERS, read_engine_report

DATE = datetime.date(2026, 11, 15)
each_reader = pytest.mark.parametrize("name", ENGINE_READERS)


def written(folder: Path, content: str | bytes, name: str = "engine.log") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_every_reader_has_a_good_and_a_cut_sample() -> None:
    assert set(GOOD_AND_CUT) == set(ENGINE_READERS)


@each_reader
def test_a_good_file_is_recognised_by_its_own_reader_alone(name: str) -> None:
    good, _ = GOOD_AND_CUT[name]
    assert [other for other, reader in ENGINE_READERS.items() if reader.recognises(good)] == [name]


@each_reader
def test_a_good_file_is_read_and_every_figure_names_its_line(name: str, tmp_path: Path) -> None:
    reported = read_engine_report(written(tmp_path, GOOD_AND_CUT[name][0]), date=DATE)
    lines = GOOD_AND_CUT[name][0].splitlines()
    assert reported.figures
    for key, figure in reported.figures.items():
        assert figure.unit == QUANTITIES[key].unit
        assert figure.evidence is Evidence.MEASURED
        sources = [each for _, each in walk(figure) if isinstance(each, Source)]
        assert sources
        for source in sources:
            file, line = source.where.split(":")
            assert (file, source.date) == ("engine.log", DATE)
            assert 1 <= int(line) <= len(lines)


@each_reader
def test_a_file_that_ends_too_early_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"engine\.log"):
        read_engine_report(written(tmp_path, GOOD_AND_CUT[name][1]), date=DATE)


@each_reader
def test_a_file_of_another_engine_is_refused_where_one_is_asked_for(name: str, tmp_path: Path) -> None:
    engine = read_engine_report(written(tmp_path, GOOD_AND_CUT[name][0]), date=DATE).engine
    if not engine:  # a device monitor is of no engine, and goes with every one
        assert read_engine_report(tmp_path / "engine.log", date=DATE, engine="vllm").figures
        return
    other = "sglang" if engine == "vllm" else "vllm"
    with pytest.raises(InputError, match=f"is of {engine}, not of {other}"):
        read_engine_report(written(tmp_path, GOOD_AND_CUT[name][0]), date=DATE, engine=other)


@each_reader
def test_a_packed_file_says_what_it_says_unpacked(name: str, tmp_path: Path) -> None:
    plain = GOOD_AND_CUT[name][0]
    packed = gzip.compress(plain.encode(), mtime=0)
    unpacked = read_engine_report(written(tmp_path, plain), date=DATE)
    assert read_engine_report(written(tmp_path, packed), date=DATE).figures == unpacked.figures
    with pytest.raises(InputError, match="gzip that is cut short"):
        read_engine_report(written(tmp_path, packed[:-9]), date=DATE)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x7fELF\x00\x01", "is binary"),
        (bytes(range(128, 256)) * 50, "is not text"),
        (b"GET /v1/models 200 OK\n", "not a log, a metrics page"),
    ],
    ids=["empty", "blank", "binary", "other encoding", "something else"],
)
def test_what_no_engine_reported_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=said):
        read_engine_report(written(tmp_path, content), date=DATE)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_engine_report(tmp_path / "missing.log", date=DATE)


@given(st.sampled_from(sorted(ENGINE_READERS)), st.data())
def test_a_damaged_file_is_read_or_refused_but_never_crashes(name: str, data: st.DataObject) -> None:
    """Cut anywhere, characters changed, lines lost or doubled: an answer or an InputError, nothing else."""
    text = GOOD_AND_CUT[name][0]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text) - 1))
        damage = data.draw(st.sampled_from(["cut", "change", "drop line", "double line"]))
        line_end = text.find("\n", at) + 1 or len(text)
        if damage == "cut":
            text = text[: at + 1]
        elif damage == "change":
            text = text[:at] + data.draw(st.sampled_from("0.,:-()[]{}\"' \nxé\ufffd")) + text[at + 1 :]
        elif damage == "drop line":
            text = text[:at] + text[line_end:] or "\n"
        else:
            text = text[:line_end] + text[at:]
    reader = ENGINE_READERS[name]
    try:
        reported = reader.read(text, file="engine.log", date=DATE)
    except InputError:
        return
    assert all(figure.evidence is Evidence.MEASURED for figure in reported.figures.values())


@each_reader
def test_reading_twice_gives_the_same(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, GOOD_AND_CUT[name][0])
    assert read_engine_report(path, date=DATE) == read_engine_report(path, date=DATE)
