"""Counters over resets and gaps, levels, clocks: what was scraped, laid onto steps, against counts by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.readers.prometheus.client import RangeSeries
from ullage.readers.prometheus.files import observe_files
from ullage.readers.prometheus.metrics import METRICS, SeriesKind, query_of
from ullage.readers.prometheus.settings import MetricNames, read_http_settings, read_metric_names
from ullage.readers.prometheus.steps import StepGrid, grid_between, increases, means
from ullage.reconcile.observation import NoteKind, ObservedQuantity

START_S = 1_760_000_400.0
GRID = StepGrid(start_s=0.0, step_s=60.0, steps=10)


def series(times: object, values: object, **labels: str) -> RangeSeries:
    times_s, found = (tuple(np.asarray(each, dtype=float).tolist()) for each in (times, values))
    return RangeSeries(labels=labels, times_s=times_s, values=found)


@given(st.lists(st.integers(0, 50), min_size=40, max_size=40), st.sets(st.integers(1, 39), max_size=5))
def test_a_counter_counts_everything_but_what_a_reset_hid(counts: list[int], resets: set[int]) -> None:
    """Scraped every 15 s; at a reset the counter starts anew with what it counted since."""
    shown, total, hidden = [0.0], 0.0, 0
    for place, each in enumerate(counts):
        total = each if place in resets else total + each
        # A reset that does not make the counter fall cannot be seen by anybody.
        hidden += int(place in resets and total >= shown[-1])
        shown.append(float(total))
    found = increases(series(np.arange(41) * 15.0, shown), GRID)
    if not hidden:
        assert np.nansum(found.values) == pytest.approx(sum(counts))
        assert found.resets == len([each for each in resets if shown[each + 1] < shown[each]])
    assert np.nansum(found.values) <= sum(counts) + 1e-9


def test_a_reset_is_counted_from_zero() -> None:
    found = increases(series([0, 60, 120, 180], [100, 160, 20, 50]), StepGrid(start_s=0, step_s=60, steps=3))
    assert found.values.tolist() == [60.0, 20.0, 30.0]
    assert found.resets == 1


def test_a_gap_is_unknown_and_not_nothing() -> None:
    times = [*range(0, 181, 15), *range(420, 601, 15)]
    found = increases(series(times, times), GRID)
    assert np.isnan(found.values).tolist() == [False] * 3 + [True] * 4 + [False] * 3
    assert np.nansum(found.values) == pytest.approx(360.0)


def test_a_level_is_the_mean_of_its_samples_in_the_step_that_they_end() -> None:
    found = means(series([30, 60, 90, 240], [2.0, 4.0, 10.0, 7.0]), StepGrid(start_s=0, step_s=60, steps=4))
    assert found.values[:2].tolist() == [3.0, 10.0]
    assert np.isnan(found.values[2])
    assert found.values[3] == 7.0


@pytest.mark.parametrize(
    ("days", "step_s"), [(0.2, 60.0), (1.0, 60.0), (3.0, 300.0), (14.0, 900.0), (42.0, 3600.0), (400.0, 3600.0)]
)
def test_steps_suit_the_stretch_and_begin_on_a_whole_one(days: float, step_s: float) -> None:
    grid = grid_between(START_S + 7.0, START_S + 7.0 + days * 86_400.0)
    assert grid.step_s == step_s
    assert grid.start_s % step_s == 0.0
    assert grid.start_s >= START_S + 7.0
    assert grid.end_s <= START_S + 7.0 + days * 86_400.0


def answers(folder: Path, *found: RangeSeries, name: str = "answers.json") -> Path:
    result = [
        {
            "metric": dict(each.labels),
            "values": [[at, str(value)] for at, value in zip(each.times_s, each.values, strict=True)],
        }
        for each in found
    ]
    file = folder / name
    file.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return file


def test_a_renamed_metric_is_joined_and_named(tmp_path: Path) -> None:
    times = START_S + 60.0 * np.arange(61)
    old = series(times[:31], np.full(31, 0.2), __name__="vllm:gpu_cache_usage_perc", pod="a")
    new = series(times[31:], np.full(30, 0.4), __name__="vllm:kv_cache_usage_perc", pod="b")
    count = series(times, 5.0 * np.arange(61), __name__="http_requests_total", handler="/v1/chat", pod="a")
    found = observe_files([answers(tmp_path, old, new, count)], MetricNames())
    use = found.levels[ObservedQuantity.KV_USE]
    assert use[:30].tolist() == [0.2] * 30
    assert use[30:].tolist() == [0.4] * 30
    (note,) = [each for each in found.notes if each.kind is NoteKind.RENAMED and each.quantity == "kv_use"]
    assert "vllm:gpu_cache_usage_perc" in note.what
    assert "vllm:kv_cache_usage_perc" in note.what


def test_clocks_that_lie_are_put_right_where_certain_and_named(tmp_path: Path) -> None:
    times = START_S + 60.0 * np.arange(31)
    values = 6.0 * np.arange(31)
    for wrong, said in (
        (times * 1000.0, "milliseconds"),
        (np.concatenate([times[:10], times[12:9:-1], times[13:]]), "not later than the one before"),
        (np.concatenate([times[:-1], [times[-1] + 1e8]]), "after the end of the stretch"),
    ):
        order = values if wrong.size == values.size else values[: wrong.size]
        order = np.interp(np.where(wrong > 1e11, wrong / 1000.0, wrong), times, values)
        file = answers(tmp_path, series(wrong, order, __name__="http_requests_total", handler="/v1/x"))
        end_s = times[-1] if wrong.max() < 1e11 else None
        found = observe_files([file], MetricNames(), start_s=START_S, end_s=end_s)
        assert np.nansum(found.counted[ObservedQuantity.ARRIVALS][:25]) == pytest.approx(150.0)
        assert any(each.kind is NoteKind.CLOCK and said in each.what for each in found.notes), found.notes


def test_a_substitute_for_arrivals_says_what_it_misses(tmp_path: Path) -> None:
    times = START_S + 60.0 * np.arange(31)
    only = series(times, np.arange(31.0), __name__="vllm:request_success_total")
    found = observe_files([answers(tmp_path, only)], MetricNames())
    assert found.total(ObservedQuantity.ARRIVALS) == pytest.approx(30.0)
    assert any(each.kind is NoteKind.SUBSTITUTE and "aborted" in each.what for each in found.notes)
    better = series(times, 2.0 * np.arange(31), __name__="http_requests_total", handler="/v1/completions")
    health = series(times, 90.0 * np.arange(31), __name__="http_requests_total", handler="/health")
    found = observe_files([answers(tmp_path, only, better, health)], MetricNames())
    assert found.total(ObservedQuantity.ARRIVALS) == pytest.approx(60.0)


def test_a_file_is_called_by_its_quantity_where_its_series_have_no_name(tmp_path: Path) -> None:
    one = series(START_S + 60.0 * np.arange(1, 31), np.full(30, 12.0))
    found = observe_files([answers(tmp_path, one, name="arrivals.json")], MetricNames(), start_s=START_S)
    assert found.total(ObservedQuantity.ARRIVALS) == pytest.approx(12.0 * 30)
    with pytest.raises(InputError, match="not called by what they are"):
        observe_files([answers(tmp_path, one, name="mine.json")], MetricNames())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[1]",
        '{"data": {"result": 5}}',
        '{"data": {"resultType": "vector", "result": []}}',
        '{"data": {"resultType": "matrix", "result": [{"values": [1]}]}}',
        '{"data": {"resultType": "matrix", "result": [{"metric": {"__name__": "x"}, "values": [["a", "b"]]}]}}',
        '{"data": {"result": [{"metric": {"__name__": "up"}, "values": [[1, "1"], [900, "1"]]}]}}',
    ],
)
def test_a_file_that_is_no_answer_is_an_input_error(text: str, tmp_path: Path) -> None:
    file = tmp_path / "arrivals.json"
    file.write_text(text)
    with pytest.raises(InputError):
        observe_files([file], MetricNames())


def test_every_metric_has_a_query_and_every_quantity_a_metric() -> None:
    assert set(METRICS) == set(ObservedQuantity)
    for quantity, listed in METRICS.items():
        assert len({each.kind for each in listed if each.kind is not SeriesKind.EXPRESSION}) <= 1, quantity
        for metric in listed:
            query = query_of(metric, step_s=300, selector='namespace="prod"')
            assert 'namespace="prod"' in query
            assert "{sel}" not in query
            assert "{step}" not in query


def test_names_of_ones_own_come_first(tmp_path: Path) -> None:
    file = tmp_path / "names.yaml"
    file.write_text("metrics: {arrivals: my:requests_total}\nlabel: product\nclasses: {chat: web}\n")
    found = read_metric_names(file)
    assert found.table[ObservedQuantity.ARRIVALS][0].name == "my:requests_total"
    assert found.class_of("web") == "chat"
    assert found.class_of("other") is None
    file.write_text("metrics: {arivals: x}")
    with pytest.raises(InputError, match="arrivals"):
        read_metric_names(file)


def test_credentials_are_read_as_prometheus_writes_them(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    file = tmp_path / "http.yml"
    file.write_text(
        "authorization: {credentials_file: token}\n"
        "basic_auth: {username: me, password: it}\n"
        "http_headers: {X-Scope-OrgID: {values: [team]}}\n"
        "tls_config: {ca_file: ca.pem, cert_file: c.pem, key_file: k.pem, server_name: prom}\n"
    )
    found = read_http_settings(file)
    assert found.headers == {"X-Scope-OrgID": "team", "Authorization": "Bearer secret"}
    assert found.basic == ("me", "it")
    assert found.certificate == (str(tmp_path / "c.pem"), str(tmp_path / "k.pem"))
    file.write_text("authorisation: {}")
    with pytest.raises(InputError, match="authorisation"):
        read_http_settings(file)
