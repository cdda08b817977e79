"""What every test can ask for: the published data set, and how many random cases to try."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from support.kept_plans import forget_folder, is_folder_named, keep_windows, kept_plans, name_folder
from support.shared_data import ABSENT, find_shared_data

# quick: `make check` and `make test`; full: `make soak`. Deadlines are timing assertions, so there are none.
settings.register_profile(
    "quick", max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("full", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


_KEPT = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Workers of one session share the plans they make: they find the folder in their environment.

    So does a session that a test runs inside this one.
    """
    # Each worker would rewrite the assertions of every test anew, and some hundred programs would each compile our
    # source, where the environment forbids to write bytecode. Beside the source, as Python does: a folder elsewhere
    # would be one for the libraries too, and they are compiled already.
    sys.dont_write_bytecode = False
    # A job in a script's background, and all that it starts, would ignore the Ctrl-C that tests send.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not is_folder_named():
        config.stash[_KEPT] = Path(tempfile.mkdtemp(prefix="ullage-tests-"))
        name_folder(config.stash[_KEPT])


def pytest_unconfigure(config: pytest.Config) -> None:
    """What was kept is some hundred megabytes, and of no use to the next session."""
    if _KEPT in config.stash:
        shutil.rmtree(config.stash[_KEPT], ignore_errors=True)
        forget_folder()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with the most slow tests first: a core takes a whole file, and the other waits for a long last one."""
    slow = Counter(each.path for each in items if each.get_closest_marker("slow"))
    items.sort(key=lambda each: -slow[each.path])


def pytest_collection_finish() -> None:
    """Thousands of tests and the libraries stay for the session: a collection of garbage need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _kept_in_the_session() -> None:
    """Tests find the windows that others simulated."""
    keep_windows()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Around the fixtures of its module too, most of which are plans."""
    if item.get_closest_marker("fresh"):
        return (yield)
    with kept_plans():
        return (yield)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The published data set beside the repository; the test is skipped, and counted, where it is absent."""
    found = find_shared_data()
    if found is None:
        pytest.skip(ABSENT)
    return found


# `make check` is two minutes because each of its six thousand tests costs next to nothing. One that takes longer than
# this is named at the end of a run, so that somebody makes it cheaper or marks it slow; a busy machine names more.
QUICK_CPU_S = 0.5
_CPU_S = pytest.StashKey[float]()


def _cpu_s() -> float:
    """CPU time of this process, all its threads, and the programs that it has waited for."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_CPU_S] = _cpu_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.when == "teardown" and _CPU_S in item.stash:
        item.user_properties.append(("cpu_s", _cpu_s() - item.stash[_CPU_S]))
    return (yield)


def _say_costs(terminalreporter: pytest.TerminalReporter) -> None:
    """What the tests cost, and which of the quick ones are none; the reports of workers carry both here."""
    cost_s = {
        report.nodeid: (float(value), "slow" in report.keywords)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "cpu_s"
    }
    quick_s, slow_s = (sum(cpu_s for cpu_s, slow in cost_s.values() if slow is wanted) for wanted in (False, True))
    terminalreporter.write_line(f"CPU seconds of tests: {quick_s:.0f} quick, {slow_s:.0f} slow")
    heavy = sorted(
        ((cpu_s, name) for name, (cpu_s, slow) in cost_s.items() if cpu_s > QUICK_CPU_S and not slow), reverse=True
    )
    if heavy:
        terminalreporter.write_line(f"{len(heavy)} over {QUICK_CPU_S} CPU seconds that are not marked slow:")
    for cpu_s, name in heavy[:20]:
        terminalreporter.write_line(f"{cpu_s:6.1f} {name}")
    files: dict[str, float] = {}
    for name, (cpu_s, _) in cost_s.items():
        file = name.partition("::")[0]
        files[file] = files.get(file, 0.0) + cpu_s
    for file, cpu_s in sorted(files.items(), key=lambda each: -each[1])[:20]:
        terminalreporter.write_line(f"{cpu_s:6.1f} all of {file}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    _say_costs(terminalreporter)
    skipped = [each for each in terminalreporter.stats.get("skipped", []) if ABSENT in str(each.longrepr)]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests skipped: {ABSENT}", yellow=True)
