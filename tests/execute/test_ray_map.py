"""A map over Ray: the bytes of one core, a worker killed in the middle, a poisoned task, cancellation, and no Ray.

What needs Ray runs where it is installed, on a cluster of two nodes on loopback; elsewhere it is skipped and says so.
"""

from __future__ import annotations

import datetime
import functools
import importlib
import importlib.util
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ullage import verbs
from ullage.errors import InputError
from ullage.execute.ray_map import parse_run_on, ray_map

IS_INSTALLED = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not IS_INSTALLED, reason="Ray is not installed: pip install ullage[ray]")


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
        with pytest.raises(InputError, match="no place to run on"):
            parse_run_on(wrong)


@pytest.mark.skipif(IS_INSTALLED, reason="Ray is installed here")
def test_without_ray_it_says_what_to_install() -> None:
    with pytest.raises(InputError, match=r"not installed.*ullage\[ray\]"), ray_map("ray"):
        pass


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each, on loopback."""
    ray: Any = importlib.import_module("ray")
    made = importlib.import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


@needs_ray
def test_two_nodes_give_the_results_of_a_plain_map_in_order(cluster: Any) -> None:
    with ray_map("ray") as spread:
        assert list(spread(square, range(20))) == [each * each for each in range(20)]
        assert list(spread(max, [1, 5], [4, 2])) == [4, 5]


@needs_ray
def test_a_killed_worker_is_made_good(cluster: Any, tmp_path: Path) -> None:
    with ray_map("ray") as spread:
        found = list(spread(functools.partial(killed_once, str(tmp_path)), range(6)))
    assert found == [1, 2, 3, 4, 5, 6]
    assert (tmp_path / "killed").exists()


@needs_ray
def test_a_poisoned_task_is_reported_with_its_input(cluster: Any) -> None:
    with ray_map("ray") as spread:
        with pytest.raises(InputError, match=r"task = '3'.*ended its worker 4 times"):
            list(spread(killed_always, range(5)))
        with pytest.raises(InputError, match=r"task = '3'.*ZeroDivisionError"):
            list(spread(failing, range(5)))
        with pytest.raises(InputError, match="rate = 7: is wrong"):
            list(spread(refused, [7]))


@needs_ray
def test_ctrl_c_cancels_what_has_not_ended(cluster: Any, tmp_path: Path) -> None:
    def interrupt() -> None:
        while not list(tmp_path.glob("begun *")):
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with ray_map("ray") as spread, pytest.raises(KeyboardInterrupt):
        list(spread(functools.partial(slow, str(tmp_path)), range(4)))
    begun = len(list(tmp_path.glob("begun *")))
    # Those that had begun are ended, the others never begin: another map has both cores at once.
    with ray_map("ray") as spread:
        assert list(spread(square, [2, 3])) == [4, 9]
    assert len(list(tmp_path.glob("begun *"))) == begun
    assert not list(tmp_path.glob("ended *"))


PLAN = """
version: 1
service: {name}
workload: {{classes: [{{name: chat, rate: {rate} req/s, longest_context: 4096, slo: {{ttft_p95: 2s}}}}]}}
pool: {{model: llama-3.1-8b, device: l40s}}
"""


@needs_ray
def test_a_portfolio_on_two_nodes_is_the_same_bytes(cluster: Any, tmp_path: Path) -> None:
    files = []
    for name, rate in (("one", 5), ("two", 9), ("three", 40)):
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(PLAN.format(name=name, rate=rate))
    alone, spread = (
        verbs.portfolio(files, as_of=datetime.date(2026, 11, 16), run_on=place).to_dict() for place in (None, "ray")
    )
    assert json.dumps(alone) == json.dumps(spread)
    files[1].write_text(PLAN.format(name="two", rate="-1"))
    with pytest.raises(InputError, match=r"two\.yaml.*rate"):
        verbs.portfolio(files, as_of=datetime.date(2026, 11, 16), run_on="ray")
