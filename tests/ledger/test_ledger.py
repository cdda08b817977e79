"""The ledger's laws, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from support.ledger_writers import reported, start_writer
from support.postgres import Server, server
from ullage.errors import InputError
from ullage.ledger.body import EntryBody, EntryKind, digest_of, parse_body
from ullage.ledger.database import connect, is_current, migrate, parse_address
from ullage.ledger.ledger import RetentionRule, open_ledger, opened, take_over

NOW = datetime.datetime(2026, 11, 16, 12, 0, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def entry(
    name: str, *, kind: EntryKind = EntryKind.PLAN, about: tuple[str, ...] = (), service: str = "chat", size: int = 0
) -> EntryBody:
    content = {"name": name, "figures": [0.1, 2, None], "text": "ä" * size}
    return EntryBody(
        kind=kind, service=service, as_of="2026-11-16", summary=f"plan {name}", content=content, about=about
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
        max_leaves=20,
    )
)
def test_a_body_is_read_back_as_it_was_written_under_the_same_digest(value: object) -> None:
    body = EntryBody(kind=EntryKind.BILL, service="a", as_of="2026-11-16", summary="b", content={"value": value})
    again = parse_body(body.canonical, where="test")
    assert again.canonical == body.canonical
    assert again.digest == body.digest == digest_of(body.canonical)


@pytest.mark.slow
def test_the_same_plan_is_kept_once_and_found_by_the_first_digits(address: str) -> None:
    with opened(address, create=True) as ledger:
        first, second = entry("a", size=5000), entry("b")
        assert ledger.keep(first, at=NOW)
        assert not ledger.keep(first, at=NOW + DAY)
        assert ledger.keep(second, at=NOW)
        listed = ledger.entries()
        assert [each.digest for each in listed] == [second.digest, first.digest]
        assert listed[1].kept_at == "2026-11-16T12:00:00+00:00"
        assert ledger.find(first.digest[:8]).digest == first.digest
        assert ledger.find("latest").digest == second.digest
        assert ledger.body(first.digest) == first
        assert ledger.verify() == (2, [])


@pytest.mark.parametrize("name", ["", "abc", "zzzz", "0" * 65, "'; DROP TABLE entries; --", "ffff"])
def test_a_name_that_is_none_is_an_error_that_says_so(address: str, name: str) -> None:
    with opened(address, create=True) as ledger:
        ledger.keep(entry("a"), at=NOW)
        with pytest.raises(InputError):
            ledger.find(name)


def test_a_kind_is_asked_for_and_held_to(address: str) -> None:
    with opened(address, create=True) as ledger:
        plan = entry("a")
        score = entry("b", kind=EntryKind.RECONCILIATION, about=(plan.digest,))
        ledger.keep_all([plan, score], at=NOW)
        assert [each.digest for each in ledger.about(plan.digest, kind=EntryKind.RECONCILIATION)] == [score.digest]
        assert ledger.about(plan.digest, kind=EntryKind.BILL) == []
        assert [each.kind for each in ledger.entries(kind=EntryKind.PLAN)] == [EntryKind.PLAN]
        with pytest.raises(InputError, match="is a reconciliation"):
            ledger.find(score.digest, kind=EntryKind.PLAN)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET summary = 'better'",
        "DELETE FROM entries",
        "UPDATE bodies SET size_bytes = 1",
        "DELETE FROM bodies",
    ],
)
def test_the_database_itself_refuses_to_change_what_was_kept(address: str, statement: str) -> None:
    with opened(address, create=True) as ledger:
        ledger.keep(entry("a"), at=NOW)
        engine = connect(parse_address(address))
        with pytest.raises(sa.exc.DBAPIError, match=r"never|retention"), engine.begin() as connection:
            connection.execute(sa.text(statement))
        engine.dispose()
        assert ledger.verify() == (1, [])


def test_damage_is_found_and_named(address: str) -> None:
    with opened(address, create=True) as ledger:
        whole, damaged, renamed, alone = (entry(each) for each in "abcd")
        lost = entry("e", kind=EntryKind.RECONCILIATION, about=("0" * 64,))
        ledger.keep_all([whole, damaged, renamed, alone, lost], at=NOW)
        engine = connect(parse_address(address))
        with engine.begin() as connection:
            off = (
                "ALTER TABLE {} DISABLE TRIGGER USER" if engine.dialect.name == "postgresql" else "DROP TRIGGER {}_stay"
            )
            for table in ("entries", "bodies"):
                connection.execute(sa.text(off.format(table)))
            change = sa.text("UPDATE bodies SET packed = :packed WHERE digest = :digest")
            connection.execute(change, {"packed": entry("other").packed, "digest": damaged.digest})
            connection.execute(change, {"packed": b"nothing", "digest": alone.digest})
            connection.execute(
                sa.text("UPDATE entries SET summary = 'better' WHERE digest = :digest"), {"digest": renamed.digest}
            )
        engine.dispose()
        count, damage = ledger.verify()
        assert count == 5
        said = {each.digest: each.problem for each in damage}
        assert set(said) == {damaged.digest, renamed.digest, alone.digest, lost.digest}
        assert "another digest" in said[damaged.digest]
        assert "summary was changed" in said[renamed.digest]
        assert "cannot be read" in said[alone.digest]
        assert "not here" in said[lost.digest]
        with pytest.raises(InputError, match="damaged"):
            ledger.body(damaged.digest)


def test_retention_removes_bodies_by_rule_and_keeps_what_is_needed(address: str) -> None:
    with opened(address, create=True) as ledger:
        old = [entry(f"old {number}") for number in range(4)]
        scored = entry("score", kind=EntryKind.RECONCILIATION, about=(old[0].digest,))
        for number, each in enumerate(old):
            ledger.keep(each, at=NOW - (100 - number) * DAY)
        ledger.keep(scored, at=NOW)
        rule = RetentionRule(newest_entries=1, younger_days=98)
        foreseen = ledger.let_go(rule, at=NOW, really=False)
        assert [each.digest for each in foreseen] == [old[2].digest, old[1].digest]
        assert all(not each.removed_by for each in ledger.entries())
        assert ledger.let_go(rule, at=NOW, really=True) == foreseen
        assert ledger.let_go(rule, at=NOW, really=True) == []
        gone = {each.digest: each.removed_by for each in ledger.entries() if each.removed_by}
        assert gone == {old[1].digest: rule.text, old[2].digest: rule.text}
        assert ledger.body(old[0].digest) == old[0]
        with pytest.raises(InputError, match="no body any more"):
            ledger.body(old[1].digest)
        # What went by a rule does not come back by keeping it again, and the ledger is whole.
        assert not ledger.keep(old[1], at=NOW)
        assert ledger.verify() == (5, [])


@pytest.mark.slow
def test_what_was_exported_is_taken_over_once(address: str, tmp_path: Path) -> None:
    bodies = [entry(str(number), size=number) for number in range(450)]
    with opened(str(tmp_path / "other.sqlite"), create=True) as source, opened(address, create=True) as target:
        assert take_over(source, bodies, at=NOW) == (450, 450)
        target.keep(bodies[3], at=NOW)
        exported = [body for _, body in source.lines() if body is not None]
        assert exported == bodies
        assert take_over(target, exported, at=NOW) == (450, 449)
        assert take_over(target, exported, at=NOW) == (450, 0)
        assert {each.digest for each in target.entries()} == {each.digest for each in bodies}


def test_eight_writers_lose_nothing_and_keep_the_same_plan_once(address: str) -> None:
    writers = [start_writer(address, f"writer {number}", 12) for number in range(8)]
    printed = {digest for _, reports in writers for digest in reported(reports)}
    for process, reports in writers:
        process.join()
        reports.close()
    assert [process.exitcode for process, _ in writers] == [0] * 8
    with opened(address) as ledger:
        assert printed <= {each.digest for each in ledger.entries()}
        assert len(printed) == 8 * 12
        assert len(ledger.entries(service="shared")) == 12
        assert ledger.verify() == (9 * 12, [])


def test_a_killed_writer_loses_the_write_in_flight_alone(address: str) -> None:
    with opened(address, create=True):
        pass
    for rows in (1, 7, 20):
        process, reports = start_writer(address, f"killed after {rows}", 10_000)
        printed = [reports.recv() for _ in range(rows)]
        process.kill()
        printed += reported(reports)
        reports.close()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        with opened(address) as ledger:
            kept = {each.digest for each in ledger.entries(service=f"killed after {rows}")}
            # All that was reported is there, and at most the one that was about to be.
            assert set(printed) <= kept
            assert len(kept) <= len(printed) + 1
            assert ledger.verify()[1] == []
            assert ledger.keep(entry(f"after {rows}"), at=NOW)


def test_data_survives_a_migration(address: str) -> None:
    engine = connect(parse_address(address))
    assert migrate(engine, to="0001") == "0001"
    assert not is_current(engine)
    plan = entry("a", size=3000)
    score = entry("b", kind=EntryKind.RECONCILIATION, about=(plan.digest,))
    with engine.begin() as connection:
        for each in (plan, score):
            row = {"digest": each.digest, "kind": each.kind.value, "service": each.service, "as_of": each.as_of}
            connection.execute(
                sa.text(
                    "INSERT INTO entries (digest, kind, service, as_of, summary, kept_at) "
                    "VALUES (:digest, :kind, :service, :as_of, :summary, :kept_at)"
                ),
                {**row, "summary": each.summary, "kept_at": NOW.isoformat()},
            )
            connection.execute(
                sa.text("INSERT INTO bodies (digest, size_bytes, packed) VALUES (:digest, :size, :packed)"),
                {"digest": each.digest, "size": len(each.canonical), "packed": each.packed},
            )
    with opened(address) as ledger:
        assert is_current(engine)
        assert ledger.body(plan.digest) == plan
        assert [each.digest for each in ledger.about(plan.digest, kind=EntryKind.RECONCILIATION)] == [score.digest]
        assert ledger.verify() == (2, [])
        assert ledger.keep(entry("c"), at=NOW)
    engine.dispose()


def test_several_that_open_a_new_ledger_at_once_make_one(address: str) -> None:
    def keep(number: int) -> bool:
        with opened(address, create=True) as ledger:
            return ledger.keep(entry(f"of {number}"), at=NOW)

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(keep, range(6)))
    with opened(address) as ledger:
        assert ledger.verify() == (6, [])


def test_a_ledger_of_a_newer_version_is_refused(address: str) -> None:
    with opened(address, create=True):
        pass
    engine = connect(parse_address(address))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(InputError, match="newer version"):
        open_ledger(address)


@pytest.mark.slow
def test_a_restart_of_the_server_is_waited_for() -> None:
    with server() as running, opened(running.address, create=True) as ledger:
        assert ledger.keep(entry("before"), at=NOW)
        running.stop("immediate")
        with ThreadPoolExecutor(1) as threads:
            kept = threads.submit(ledger.keep, entry("meanwhile"), at=NOW)
            running.start()
            assert kept.result(timeout=60)
        assert [each.summary for each in ledger.entries()] == ["plan meanwhile", "plan before"]
        assert ledger.verify() == (2, [])


def mounted(folder: Path, size_mib: int) -> bool:
    """Whether a small disk could be mounted here: that takes root, and rights that a container may lack."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "tmpfs", str(folder)], check=False)
    return done.returncode == 0


def fill(address: str) -> tuple[list[str], InputError]:
    """Keep large entries until the disk is full: what was kept, and what was said."""
    import random

    noise, kept = random.Random(1), list[str]()
    with opened(address, create=True) as ledger:
        for number in range(4000):
            body = entry(f"{number} {noise.randbytes(60_000).hex()}")
            try:
                ledger.keep(body, at=NOW)
            except InputError as error:
                return kept, error
            kept.append(body.digest)
    raise AssertionError("the disk was never full")


def test_a_full_disk_loses_the_write_in_flight_alone(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if not mounted(disk, 4):
        pytest.skip("no rights to mount a small disk")
    try:
        kept, error = fill(str(disk / "ledger.sqlite"))
        assert kept
        assert "this entry was not stored; earlier entries are intact" in str(error)
        with opened(str(disk / "ledger.sqlite")) as ledger:
            assert {each.digest for each in ledger.entries()} == set(kept)
            assert ledger.verify() == (len(kept), [])
        subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
        with opened(str(disk / "ledger.sqlite")) as ledger:
            assert ledger.keep(entry("room again"), at=NOW)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
def test_a_full_disk_of_the_server_loses_the_write_in_flight_alone(postgres: Server, tmp_path: Path) -> None:
    disk = postgres.folder / "disk"
    disk.mkdir()
    if not mounted(disk, 24):
        pytest.skip("no rights to mount a small disk")
    try:
        with server(disk_for(postgres, disk)) as running:
            running_kept, error = fill(running.address)
            assert running_kept
            assert "earlier entries are intact" in str(error)
            subprocess.run(["mount", "-o", "remount,size=512m", str(disk)], check=True)
            with opened(running.address) as ledger:
                assert {each.digest for each in ledger.entries()} == set(running_kept)
                assert ledger.verify() == (len(running_kept), [])
                assert ledger.keep(entry("room again"), at=NOW)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def disk_for(postgres: Server, disk: Path) -> Path:
    subprocess.run(["mount", "-o", "remount,size=80m", str(disk)], check=True)
    disk.chmod(0o777)
    return disk


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mysql://localhost/x", "neither SQLite nor PostgreSQL"),
        ("postgresql://ullage@/none?host=/nowhere", "cannot be reached"),
        ("/nowhere/ledger.sqlite", "is not there"),
        ("://", "not an address"),
    ],
)
def test_a_place_that_is_none_is_named(given: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        open_ledger(given)


def test_a_file_that_is_no_ledger_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be looked at as one" * 100)
    with pytest.raises(InputError, match="not a ledger"):
        open_ledger(str(tmp_path / "notes.txt"))


def test_a_place_that_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place in (tmp_path / "pipe", Path("/dev/null")):
        with pytest.raises(InputError, match="is no regular file"):
            open_ledger(str(place), create=True)


def test_a_password_is_not_printed() -> None:
    with pytest.raises(InputError) as error:
        open_ledger("postgresql://ullage:secret@/none?host=/nowhere")
    assert "secret" not in str(error.value)
