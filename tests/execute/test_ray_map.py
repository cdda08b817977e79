"""Maps over Ray: the bytes of one core, a worker killed in the middle, a poisoned task, cancellation, a lost head.

They run on a cluster of two nodes on loopback, one core each. Where Ray is not installed they are skipped and say so.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from ullage import verbs
from ullage.errors import InputError
from ullage.execute.pool import inline, thread_map
from ullage.execute.ray_map import WORTH_S, parse_run_on, ray_map
from ullage.execute.run import RunContext
from ullage.load.plan import load_plan
from ullage.planning.document import Plan
from ullage.planning.drills.drills import run_drills
from ullage.planning.options.options import options
from ullage.planning.options.trial import ROUNDS
from ullage.planning.pipeline import plan as plan_service
from ullage.report.encode import to_json
from ullage.uncertainty.study import study

AS_OF = datetime.date(2026, 11, 16)
IS_INSTALLED = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not IS_INSTALLED, reason="Ray is not installed: pip install ullage[ray]")
# The least that Ray takes.
STORE_BYTES = 80 * 2**20


def square(value: int) -> int:
    return value * value


def killed_once(folder: str, value: int) -> int:
    """Ends its worker at 3, the first time."""
    marker = Path(folder) / "killed"
    if value == 3 and not marker.exists():
        marker.write_text("yes")
        os.kill(os.getpid(), signal.SIGKILL)
    return value + 1


def killed_always(value: int) -> int:
    if value == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def failing(value: int) -> float:
    return 1.0 / (value - 3)


def refused(value: int) -> int:
    raise InputError(field="rate", value=value, problem="is wrong", fix="Give another.")


def slow(folder: str, value: int) -> int:
    (Path(folder) / f"begun {value}").write_text("")
    time.sleep(60.0)
    (Path(folder) / f"ended {value}").write_text("")
    return value


def test_where_to_run_is_named() -> None:
    assert parse_run_on("ray://head:10001") == "ray://head:10001"
    for wrong in ("dask", "ray://", "http://head"):
        with pytest.raises(InputError, match="not a place to run on"):
            parse_run_on(wrong)


@pytest.mark.skipif(IS_INSTALLED, reason="Ray is installed here")
def test_without_ray_it_says_what_to_install() -> None:
    with pytest.raises(InputError, match=r"not installed.*ullage\[ray\]"), ray_map("ray"):
        pass


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each, on loopback."""
    ray: Any = importlib.import_module("ray")
    own = {"num_cpus": 1, "object_store_memory": STORE_BYTES}
    made = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={**own, "include_dashboard": False}
    )
    made.add_node(**own)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


@needs_ray
@pytest.mark.slow
def test_two_nodes_give_the_results_of_a_plain_map_in_order_and_tell_how_many_are_done(cluster: Any) -> None:
    said: list[tuple[int, int]] = []
    with ray_map("ray") as (_, whole):
        assert list(whole(square, range(20), tell=lambda *each: said.append(each))) == [each**2 for each in range(20)]
        assert list(whole(max, [1, 5], [4, 2])) == [4, 5]
        assert list(whole(square, [])) == []
    assert said == [(done, 20) for done in range(1, 21)]


class Held:
    """Says where it is unpacked."""

    def __init__(self, folder: str, values: Any) -> None:
        self.folder, self.values = folder, values

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        (Path(self.folder) / f"{os.getpid()} {time.monotonic_ns()}").write_text("")


@needs_ray
@pytest.mark.slow
def test_what_a_function_holds_goes_once_to_every_worker(cluster: Any, tmp_path: Path) -> None:
    held = Held(str(tmp_path), np.arange(100_000))
    with ray_map("ray") as (_, whole):
        assert list(whole(lambda at: int(held.values[at]), range(24))) == list(range(24))
    by_process = [each.name.partition(" ")[0] for each in tmp_path.iterdir()]
    assert by_process
    assert len(by_process) == len(set(by_process))


def where(value: int) -> int:
    return os.getpid()


def where_it_takes_long(value: int) -> int:
    time.sleep(WORTH_S)
    return os.getpid()


@needs_ray
@pytest.mark.slow
def test_looks_that_are_too_short_stay_here_and_whole_jobs_never_do(cluster: Any) -> None:
    with ray_map("ray", workers=1) as (short, whole):
        # The first of a kind are timed on the cluster.
        assert os.getpid() not in short(where, range(4))
        assert set(short(where, range(4))) == {os.getpid()}
        for _ in range(2):
            assert os.getpid() not in short(where_it_takes_long, range(2))
            assert os.getpid() not in whole(where, range(4))


@needs_ray
@pytest.mark.slow
def test_a_job_spreads_again_on_one_core_elsewhere_and_on_the_cluster_where_it_is_alone(cluster: Any) -> None:
    with ray_map("ray", workers=2) as (short, whole), thread_map(workers=2) as threads:
        run = RunContext(as_of=AS_OF, seed=0, map=short, jobs=whole).quiet()

        def job(at: int) -> list[tuple[int, list[int]]]:
            return [(os.getpid(), list(each(where, range(2)))) for each in (run.map, run.jobs, threads)]

        for found in whole(job, range(2)):
            assert all(set(inner) == {own} != {os.getpid()} for own, inner in found)
        (alone,) = whole(job, [0])
        assert alone[0][0] == os.getpid()
        assert os.getpid() not in alone[1][1]


@needs_ray
@pytest.mark.slow
def test_a_killed_worker_is_made_good(cluster: Any, tmp_path: Path) -> None:
    with ray_map("ray") as (_, whole):
        found = list(whole(functools.partial(killed_once, str(tmp_path)), range(6)))
    assert found == [1, 2, 3, 4, 5, 6]
    assert (tmp_path / "killed").exists()


@needs_ray
@pytest.mark.slow
def test_a_poisoned_task_is_reported_with_its_input(cluster: Any) -> None:
    with ray_map("ray") as (_, whole):
        with pytest.raises(InputError, match=r"task = '3'.*ended its worker 4 times"):
            list(whole(killed_always, range(5)))
        with pytest.raises(InputError, match=r"task = '3'.*ZeroDivisionError"):
            list(whole(failing, range(5)))
        # Of several the first, as on one core.
        with pytest.raises(InputError, match="rate = 7: is wrong"):
            list(whole(refused, [7, 8, 9]))


@needs_ray
@pytest.mark.slow
def test_ctrl_c_cancels_what_has_not_ended(cluster: Any, tmp_path: Path) -> None:
    def interrupt() -> None:
        while not list(tmp_path.glob("begun *")):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with ray_map("ray") as (_, whole), pytest.raises(KeyboardInterrupt):
        list(whole(functools.partial(slow, str(tmp_path)), range(4)))
    begun = len(list(tmp_path.glob("begun *")))
    # Those that had begun are ended, the others never begin: another map has both cores at once.
    with ray_map("ray") as (_, whole):
        assert list(whole(square, [2, 3])) == [4, 9]
    assert len(list(tmp_path.glob("begun *"))) == begun
    assert not list(tmp_path.glob("ended *"))


HEAD_LOST = """
import os, signal, sys, threading, time
import ray
from ray.cluster_utils import Cluster
from ullage.errors import InputError
from ullage.execute.ray_map import ray_map

made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False,
                                                     "object_store_memory": int(sys.argv[1])})
os.environ["RAY_ADDRESS"] = made.address

def long(at):
    time.sleep(600.0)

try:
    with ray_map("ray") as (_, whole):
        def kill():
            time.sleep(1.0)
            for each in made.head_node.all_processes.values():
                for process in each:
                    process.process.kill()
        threading.Thread(target=kill, daemon=True).start()
        list(whole(long, range(2)))
except InputError as error:
    print(error, flush=True)
    os._exit(7)
"""


@needs_ray
@pytest.mark.slow
def test_a_lost_head_is_said(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAD_LOST, str(STORE_BYTES)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 7, done.stderr[-2000:]
    assert "was lost" in done.stdout


BUSY = """
version: 1
service: busy
dated: 2026-11-15
workload: {classes: [{name: chat, rate: 5 req/s, longest_context: 8192, slo: {ttft_p95: 2s}}]}
pool: {model: llama-3.1-8b, device: h100-sxm}
options: {devices: [h100-sxm, l40s], tensor_parallel: [1]}
"""


@functools.cache
def busy_plan() -> Plan:
    """Without its study, which is what is asked for."""
    found = plan_service(load_plan(yaml.safe_load(BUSY), as_of=AS_OF, seed=0), as_of=AS_OF, seed=0)
    assert isinstance(found, Plan)
    return found


@needs_ray
@pytest.mark.slow
@pytest.mark.fresh
@pytest.mark.parametrize("what", ["risk", "drills", "options"])
def test_what_is_worked_out_on_two_nodes_is_the_same_bytes(cluster: Any, what: str) -> None:
    """Every job of it is done elsewhere; one of its workers is killed in the middle of the risk."""
    plan = busy_plan()
    asked: dict[str, Callable[[Any], Any]] = {
        "risk": lambda jobs: study(plan, jobs=jobs),
        "drills": lambda jobs: run_drills(plan, ("memory", "zone", "quota"), map=jobs),
        "options": lambda jobs: options(plan.spec, as_of=AS_OF, seed=0, rounds=ROUNDS[:1], jobs=jobs),
    }
    with ray_map("ray") as (_, whole):
        sent = WorkerKiller(whole) if what == "risk" else whole
        spread = asked[what](sent)
    if isinstance(sent, WorkerKiller):
        assert sent.killed == 1
    assert json.dumps(to_json(spread)) == json.dumps(to_json(asked[what](inline)))


class WorkerKiller:
    """A map over whole jobs that kills one worker while the first of several run."""

    def __init__(self, whole: Any) -> None:
        self.whole, self.killed = whole, 0

    def __call__(self, function: Any, inputs: Any) -> Any:
        given = list(inputs)
        if len(given) > 1 and not self.killed:
            threading.Thread(target=self.kill, daemon=True).start()
        return self.whole(function, given)

    def kill(self) -> None:
        while True:
            for each in Path("/proc").glob("[0-9]*"):
                try:
                    is_busy = (each / "cmdline").read_bytes().startswith(b"ray::_call") and mine(int(each.name))
                except OSError:
                    continue
                if is_busy:
                    self.killed += 1
                    os.kill(int(each.name), signal.SIGKILL)
                    return
            time.sleep(0.02)

    def __reduce__(self) -> Any:
        return self.whole.__reduce__()


def mine(pid: int) -> bool:
    """Whether a process descends from this one: another's cluster on the same machine is left alone."""
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    return False


@pytest.mark.parametrize(
    "verb", ["plan", "risk", "options", "drill", pytest.param("scenarios", marks=pytest.mark.slow)]
)
def test_a_verb_asks_for_the_place_before_it_plans(verb: str) -> None:
    with pytest.raises(InputError, match="not a place to run on"):
        getattr(verbs, verb)(run_on="dask")


PLAN = """
version: 1
service: {name}
workload: {{classes: [{{name: chat, rate: {rate} req/s, longest_context: 4096, slo: {{ttft_p95: 2s}}}}]}}
pool: {{model: llama-3.1-8b, device: l40s}}
"""


@needs_ray
@pytest.mark.slow
def test_a_portfolio_on_two_nodes_is_the_same_bytes(cluster: Any, tmp_path: Path) -> None:
    files = []
    for name, rate in (("one", 5), ("two", 9), ("three", 40)):
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(PLAN.format(name=name, rate=rate))
    alone, spread = (verbs.portfolio(files, as_of=AS_OF, run_on=place).to_dict() for place in (None, "ray"))
    assert json.dumps(alone) == json.dumps(spread)
    files[1].write_text(PLAN.format(name="two", rate="-1"))
    with pytest.raises(InputError, match=r"two\.yaml.*rate"):
        verbs.portfolio(files, as_of=AS_OF, run_on="ray")
