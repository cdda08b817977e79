"""Rates over time are a trace of their own kind: counts, rates and counters of one traffic give one number."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.readers.traces.open import open_trace
from ullage.workload.anomalies import AnomalyKind
from ullage.workload.profile.profile import Profile, profile_of
from ullage.workload.profile.windows import summarise_windows
from ullage.workload.trace import Clock, RateTable

START_S = 1793491200  # 2026-11-01, midnight UTC
HOURLY = [3600 + 60 * (hour % 24) for hour in range(14 * 24)]


def opened(path: Path, **options: object) -> RateTable:
    table = open_trace([str(path)], **options)  # type: ignore[arg-type]
    assert isinstance(table, RateTable)
    return table


def profiled(path: Path, **options: object) -> Profile:
    return profile_of(summarise_windows(opened(path, **options)))


def stamp(hour: int) -> str:
    return datetime.datetime.fromtimestamp(START_S + 3600 * hour, tz=datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def scraped(counts: Sequence[int], *, at_s: float, restart: int) -> list[tuple[float, float]]:
    """The counter of an instance as it was scraped each minute, at a moment of its own."""
    shown = grown([count / 60 for count in counts for _ in range(60)], restart=restart)  # type: ignore[misc]
    return [(START_S + at_s + 60 * at, value) for at, value in enumerate(shown)]


NAMES = {"vllm:request_success_total": 1, "vllm:e2e_request_latency_seconds_count": 1, "vllm:prompt_tokens_total": 700}


def exported(folder: Path, kind: str) -> Path:
    """What two instances counted in two days, the requests twice over, as VictoriaMetrics and Grafana write it out."""
    series = []
    for metric, factor in NAMES.items():
        for instance, at_s in (("a:1", 7.25), ("b:1", 41.5)):
            points = [(at, factor * value) for at, value in scraped(HOURLY[:48], at_s=at_s, restart=100)]
            series.append(({"__name__": metric, "instance": instance, "model_name": "m"}, points))
    if kind == "json":
        lines = [
            json.dumps({"metric": labels, "values": [v for _, v in part], "timestamps": [1000 * at for at, _ in part]})
            for labels, points in series
            for part in (points[:1000], points[1000:])
        ]
    elif kind == "csv":
        lines = [
            f"{labels['__name__']},{labels['instance']},{value!r},{at!r}"
            for labels, each in series
            for at, value in each
        ]
    else:
        lines = ["Time,Metric,Value"]
        for labels, points in series:
            legend = ", ".join(f'{label}=""{value}""' for label, value in labels.items())
            lines += [f'{1000 * at!r},"{{{legend}}}",{value!r}' for at, value in points]
    path = folder / f"export.{kind}"
    path.write_text("\n".join([*lines, ""]))
    return path


def csv(path: Path, head: str, rows: Sequence[str]) -> Path:
    path.write_text("\n".join([head, *rows, ""]))
    return path


def matrix(path: Path, series: Sequence[tuple[dict[str, str], Sequence[float]]]) -> Path:
    result = [
        {"metric": labels, "values": [[START_S + 3600 * at, str(value)] for at, value in enumerate(values)]}
        for labels, values in series
    ]
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}}))
    return path


def grown(counts: Sequence[int], *, restart: int) -> list[float]:
    """A counter that shows these counts between its points, and starts again once on the way."""
    shown, total = [500.0], 500.0
    for at, count in enumerate(counts):
        total = count if at == restart else total + count
        shown.append(total)
    return shown


def written(name: str, folder: Path) -> Path:
    rps = [count / 3600 for count in HOURLY]
    path = folder / "made"
    if name == "counts":
        return csv(path, "timestamp,requests", [f"{stamp(at)},{count}" for at, count in enumerate(HOURLY)])
    if name == "rates a second":
        return csv(path, "Time,rps", [f"{stamp(at)},{rate!r}" for at, rate in enumerate(rps)])
    if name == "rates a minute":
        return csv(path, "ts,requests per minute", [f"{stamp(at)},{60 * rate!r}" for at, rate in enumerate(rps)])
    if name == "printed with a unit":
        return csv(path, '"Time","all"', [f"{stamp(at)},{rate!r} req/s" for at, rate in enumerate(rps)])
    if name == "an expression":
        return matrix(path, [({"model_name": "m"}, rps)])
    return matrix(path, [({"__name__": "vllm:request_success_total", "pod": "a"}, grown(HOURLY, restart=100))])


@pytest.mark.parametrize("name", ["counts", "rates a second", "rates a minute", "an expression", "a counter"])
def test_every_way_to_write_one_traffic_gives_one_profile(name: str, tmp_path: Path) -> None:
    found = profiled(written(name, tmp_path))
    assert found.whole.requests == pytest.approx(sum(HOURLY), rel=1e-6)
    assert found.whole.arrivals is not None
    assert found.whole.arrivals.mean_rps == pytest.approx(sum(HOURLY) / (3600 * len(HOURLY)), rel=1e-6)
    assert (found.coverage.clock, found.coverage.window_s) == (Clock.UTC, 3600.0)
    assert found.coverage.first_time == "2026-11-01T00:00:00.000Z"
    assert found.whole.season is not None
    assert found.whole.season.peak_ratio == pytest.approx(max(HOURLY) / (sum(HOURLY) / len(HOURLY)), rel=0.01)


@pytest.mark.parametrize(
    ("kind", "named"), [("json", "victoriametrics"), ("csv", "victoriametrics-csv"), ("long", "rates-long")]
)
def test_raw_counters_of_instances_add_up_in_windows_they_share(kind: str, named: str, tmp_path: Path) -> None:
    table = opened(exported(tmp_path, kind))
    assert table.format == named
    found = profile_of(summarise_windows(table))
    # Two instances, each counted by one of its two counters of requests; the ends are left out.
    assert found.whole.requests == pytest.approx(2 * sum(HOURLY[:48]), rel=0.003)
    assert found.whole.arrivals is not None
    assert found.whole.arrivals.mean_rps == pytest.approx(2 * sum(HOURLY[:48]) / (48 * 3600), rel=0.003)
    # In the windows of a single instance there would be half of it.
    ((middle,),) = table.rates.aggregate("median(requests)").fetchall()
    assert middle == pytest.approx(2 * sum(HOURLY[:48]) / (48 * 60), rel=0.02)
    assert found.whole.lengths.prompt_tokens is not None
    assert found.whole.lengths.prompt_tokens.mean_value == pytest.approx(700)
    if kind != "csv":
        assert [group.name for group in found.of("model")] == ["m"]


def test_grafanas_legends_are_counters_with_labels(tmp_path: Path) -> None:
    counts = grown(HOURLY, restart=100)
    legend = '{{__name__=""vllm:request_success_total"", instance=""{}"", model_name=""{}""}}'
    head = f'"Time","{legend.format("a", "m")}","{legend.format("b", "n")}"'
    rows = [f"{1000 * (START_S + 3600 * at)},{value},{3 * value}" for at, value in enumerate(counts)]
    found = profiled(csv(tmp_path / "a.csv", head, rows))
    assert found.whole.requests == 4 * sum(HOURLY)
    assert {group.name: group.share_fraction for group in found.of("model")} == {"n": 0.75, "m": 0.25}


def test_rows_that_carry_their_unit_are_told_apart_by_legend(tmp_path: Path) -> None:
    legends = (("chat", "1.5 req/s"), ("mail", "0.5 req/s"), ("GPU", "80%"))
    rows = [f"{stamp(at)},{legend},{value}" for legend, value in legends for at in range(24)]
    found = profiled(csv(tmp_path / "a.csv", "Time,Metric,Value", rows))
    assert found.whole.requests == 2 * 24 * 3600
    assert {group.name: group.share_fraction for group in found.of("product")} == {"chat": 0.75, "mail": 0.25}


def test_a_table_of_points_without_requests_is_refused(tmp_path: Path) -> None:
    rows = [f"{stamp(at)},vllm:gpu_cache_usage_perc,0.5" for at in range(24)]
    with pytest.raises(InputError, match="no count or rate of requests"):
        opened(csv(tmp_path / "a.csv", "Time,Metric,Value", rows))


def test_rows_are_never_taken_for_requests(tmp_path: Path) -> None:
    found = profiled(written("counts", tmp_path))
    assert found.rows.kept_rows == len(HOURLY)
    assert found.whole.requests == sum(HOURLY)
    assert any(each.kind is AnomalyKind.COUNTED for each in found.anomalies)


def test_token_sums_become_means_and_say_so(tmp_path: Path) -> None:
    rows = [f"{stamp(at)},{count},{700 * count},{70 * count},{350 * count}" for at, count in enumerate(HOURLY)]
    found = profiled(csv(tmp_path / "a.csv", "hour,requests,input_tokens,output_tokens,cached_tokens", rows))
    lengths = found.whole.lengths
    assert lengths.prompt_tokens is not None
    assert lengths.output_tokens is not None
    assert (lengths.prompt_tokens.mean_value, lengths.output_tokens.mean_value) == (700, 70)
    assert lengths.cached_prompt_fraction == 0.5
    assert lengths.are_means
    assert any("means of windows" in each.sentence for each in found.anomalies)


def test_series_of_one_chart_are_told_apart_and_add_up(tmp_path: Path) -> None:
    rows = [f"{stamp(at)},{1.5 * (at + 1)},{0.5 * (at + 1)}" for at in range(24)]
    found = profiled(csv(tmp_path / "a.csv", "Time,search req/s,mail req/s", rows))
    shares = {group.name: group.share_fraction for group in found.of("product")}
    assert shares == {"search": pytest.approx(0.75, abs=1e-3), "mail": pytest.approx(0.25, abs=1e-3)}


def test_labels_are_dimensions_and_instances_add_up(tmp_path: Path) -> None:
    series = [({"model_name": model, "instance": at}, [2.5] * 24) for model, at in (("a", "1"), ("a", "2"), ("b", "3"))]
    found = profiled(matrix(tmp_path / "a.json", series))
    assert found.whole.requests == 3 * 24 * 9000
    assert {group.name: round(group.share_fraction, 3) for group in found.of("model")} == {"a": 0.667, "b": 0.333}


def test_the_user_states_the_unit(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "Time,requests", [f"{stamp(at)},{at + 1}" for at in range(24)])
    assert profiled(path).whole.requests == 300
    assert profiled(path, mapping={"rate_rps": "requests"}).whole.requests == 300 * 3600
    series = matrix(tmp_path / "a.json", [({}, [10.0] * 24)])
    assert profiled(series, mapping={"rate_rpm": "value"}).whole.requests == 24 * 600


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ({"rate_rps": "value", "rate_rpm": "value"}, "more than once what the values are"),
        ({"rate_rps": "rate"}, r"a.json: map.rate_rps = 'rate': is not the value of a series"),
        ({"rate_rps": "value", "prompt_tokens": "value"}, "map.prompt_tokens = 'value': cannot be mapped"),
    ],
)
def test_of_a_series_only_its_value_is_mapped_and_once(mapping: dict[str, str], said: str, tmp_path: Path) -> None:
    series = matrix(tmp_path / "a.json", [({}, [10.0] * 24)])
    with pytest.raises(InputError, match=said):
        profiled(series, mapping=mapping)


def test_scrapes_of_a_counter_that_lie_decades_apart_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    values = [[1_760_000_000 + 60 * at + at % 7, str(at)] for at in range(20)]
    series = {"metric": {"__name__": "http_requests_total"}, "values": [[946_684_807, "0"], *values]}
    path.write_text(json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [series]}}))
    with pytest.raises(InputError, match="lie between two scrapes of a counter"):
        profiled(path)


def test_windows_that_hold_less_than_half_a_request_are_refused(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "Time,model,requests", [f"{stamp(at)},m,0.3" for at in range(24)])
    with pytest.raises(InputError, match=r"a\.csv = 'windows of 3600 s': hold less than half a request each"):
        profiled(path, mapping={"requests": "requests"})


def test_a_mapped_rate_needs_a_time_and_a_column_of_its_own(tmp_path: Path) -> None:
    path = csv(tmp_path / "a.csv", "place,requests", [f"{at},{at + 1}" for at in range(24)])
    with pytest.raises(InputError, match="place, requests': holds no column that is known as a time"):
        profiled(path, mapping={"rate_rps": "requests"})
    dated = csv(tmp_path / "b.csv", "Time,requests", [f"{stamp(at)},{at + 1}" for at in range(24)])
    with pytest.raises(InputError, match="rate_rps=requests, rate_rpm=requests': gives one column twice"):
        profiled(dated, mapping={"rate_rps": "requests", "rate_rpm": "requests"})


def test_parts_of_a_count_are_not_counted_twice(tmp_path: Path) -> None:
    head = "date,api_requests,successful_requests,failed_requests,prompt_tokens,completion_tokens,"
    head += "cache_read_input_tokens,cache_creation_input_tokens,input_audio_tokens"
    rows = [f"2026-11-{day:02d},100,90,10,50000,4000,20000,900,700" for day in range(1, 15)]
    found = profiled(csv(tmp_path / "a.csv", head, rows))
    assert found.whole.requests == 1400
    assert found.whole.lengths.prompt_tokens is not None
    assert found.whole.lengths.prompt_tokens.mean_value == 500
    assert found.whole.lengths.cached_prompt_fraction == pytest.approx(0.4)


def test_missing_windows_are_not_silence(tmp_path: Path) -> None:
    rows = [f"{stamp(at)},{count}" for at, count in enumerate(HOURLY) if not 100 <= at < 150]
    found = profiled(csv(tmp_path / "a.csv", "timestamp,requests", rows))
    (hole,) = [each for each in found.anomalies if each.kind is AnomalyKind.HOLES]
    assert "50 of 336 windows are missing" in hole.sentence


def test_windows_of_a_day_have_no_hours(tmp_path: Path) -> None:
    rows = [f"{stamp(24 * at)},100" for at in range(30)]
    found = profiled(csv(tmp_path / "a.csv", "timestamp,n_requests", rows))
    assert found.whole.season is None
    assert found.coverage.window_s == 86400


@pytest.mark.parametrize(
    "text", ["time,requests\n2026-11-01T10:07:00Z,5\n", "time,requests\n2026-11-01T10:07:00Z,n/a\n"]
)
def test_one_point_or_no_number_is_an_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"one point in time|no count or rate"):
        open_trace([str(path)])


@pytest.mark.parametrize(
    ("name", "requests"), [("grafana_rps.csv", 117_000), ("prom_range.json", 117_000), ("openai_usage.csv", 120)]
)
def test_published_shapes_are_read(name: str, requests: int, shared_data: Path) -> None:
    assert profiled(shared_data / "found" / name).whole.requests == requests


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": "error", "errorType": "bad_data", "error": "parse error"}, "is an error that Prometheus answered"),
        (
            {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1, "5"]}]}},
            "is Prometheus' answer for one moment.*query_range",
        ),
        ({"status": "success", "data": {"resultType": "matrix", "result": []}}, "without a series"),
    ],
)
def test_an_answer_of_prometheus_without_points_is_named(answer: dict[str, object], said: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer))
    with pytest.raises(InputError, match=said):
        opened(path)
