"""What is written: whole or not at all, into regular files, over an existing one only if told to."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from ullage.cli.app import run
from ullage.errors import ExitCode, InputError
from ullage.files.whole import check_target, write_set, write_whole


def refused(file: Path, *, force: bool = True) -> str:
    """What the refusal says, for the check before the work and for the writing alike."""
    with pytest.raises(InputError) as before:
        check_target(file, field="--out", force=force)
    with pytest.raises(InputError) as then:
        write_whole(file, "new", field="--out", force=force)
    assert str(before.value) == str(then.value)
    return str(then.value)


def test_an_existing_file_is_replaced_only_if_told_to_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("mine")
    file.chmod(0o640)
    assert "exists already" in refused(file, force=False)
    assert file.read_text() == "mine"
    write_whole(file, "new", field="--out", force=True)
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["plan.yaml"]


def test_a_new_file_has_the_mode_that_the_user_gives_new_files(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", "new", field="--out")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link, dangling = tmp_path / "there" / "real", tmp_path / "link", tmp_path / "dangling"
    target.write_text("mine")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "there" / "not-yet")
    assert "exists already" in refused(link, force=False)
    write_whole(link, "new", field="--out", force=True)
    write_whole(dangling, "new too", field="--out")
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert (target.read_text(), dangling.read_text()) == ("new", "new too")


def test_what_is_no_regular_file_is_left_as_it_is(tmp_path: Path) -> None:
    pipe, folder, loop = tmp_path / "pipe", tmp_path / "folder", tmp_path / "loop"
    os.mkfifo(pipe)
    folder.mkdir()
    loop.symlink_to(loop)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
    to_null = tmp_path / "null"
    to_null.symlink_to("/dev/null")
    assert "is a pipe" in refused(pipe)
    assert "is a folder" in refused(folder)
    assert "is a socket" in refused(tmp_path / "socket")
    assert "is a device" in refused(Path("/dev/null"))
    assert "is a device" in refused(to_null)
    assert "cannot be written" in refused(loop)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert to_null.is_symlink()


def test_places_that_cannot_be_are_refused_before_the_work(tmp_path: Path) -> None:
    assert "lies in no existing folder" in refused(tmp_path / "nowhere" / "a")
    assert "cannot be written" in refused(tmp_path / ("n" * 300))
    assert "cannot be written" in refused(Path("a\0b"))
    protected = tmp_path / "protected"
    protected.write_text("mine")
    protected.chmod(0o444)
    if not os.access(protected, os.W_OK):
        assert "is write-protected" in refused(protected)


def test_a_name_of_the_longest_length_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / ("n" * 255)
    write_whole(file, "new", field="--out")
    assert file.read_text() == "new"


def test_a_fault_while_writing_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("mine")
    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "half \ud800", field="--out", force=True)
    assert file.read_text() == "mine"
    assert [each.name for each in tmp_path.iterdir()] == ["plan.yaml"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["profile", "no-such-log.csv", "--save"],
        ["cost", "no-such-plan.yaml", "--focus"],
        ["calibrate", "no-such-test.json", "--model", "llama-3.1-8b", "--device", "h100-sxm", "--out"],
        ["init", "--trace", "no-such-log.csv", "--out"],
    ],
)
def test_every_verb_that_writes_refuses_before_it_reads(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The input does not exist either: that the place is refused first shows that it is looked at first."""
    file = tmp_path / "mine"
    file.write_text("mine")
    assert run([*arguments, str(file)]) == ExitCode.WRONG_INPUT
    assert f"{arguments[-1]} = '{file}': exists already" in capsys.readouterr().err
    assert run([*arguments, str(file), "--force"]) == ExitCode.WRONG_INPUT
    assert "no-such" in capsys.readouterr().err
    assert run([*arguments, "/dev/null", "--force"]) == ExitCode.WRONG_INPUT
    assert "is a device" in capsys.readouterr().err
    assert file.read_text() == "mine"


def test_a_set_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    write_set(folder, {"a.yaml": "one", "b.yaml": "two"}, field="--out")
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"a.yaml": "one", "b.yaml": "two"}
    with pytest.raises(InputError, match="exists already"):
        write_set(folder, {"c.yaml": "new", "b.yaml": "new"}, field="--out")
    # A text that no file can hold fails after the first file has been replaced.
    with pytest.raises(UnicodeEncodeError):
        write_set(folder, {"a.yaml": "new", "c.yaml": "new", "d.yaml": "\ud800"}, field="--out", force=True)
    assert {each.name: each.read_text() for each in folder.iterdir()} == {"a.yaml": "one", "b.yaml": "two"}
    write_set(folder, {"a.yaml": "new"}, field="--out", force=True)
    assert (folder / "a.yaml").read_text() == "new"


def test_a_folder_that_was_made_for_nothing_is_gone_again(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        write_set(tmp_path / "set", {"a.yaml": "x", "b.yaml": "\ud800"}, field="--out")
    assert not (tmp_path / "set").exists()
    with pytest.raises(InputError, match="no existing folder"):
        write_set(tmp_path / "no" / "set", {"a.yaml": "x"}, field="--out")
