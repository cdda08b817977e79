"""Goodput counted anew: laws of limits and rules, and one run that has a different goodput by every tool's rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.service.loadtests.goodput import GOODPUT_RULES, goodput, goodput_of, rule_of
from ullage.service.loadtests.loadtest import (
    GoodputLimits,
    LoadTestSubject,
    Loop,
    MeasuredRequest,
    OfferedLoad,
    Point,
    Status,
)

LIMITS = GoodputLimits(ttft_s=0.5, tpot_s=0.05)


def answered(*, ttft_s: float = 0.1, tpot_s: float = 0.02, output: int = 11) -> MeasuredRequest:
    return MeasuredRequest(
        status=Status.OK, ttft_s=ttft_s, e2e_s=ttft_s + tpot_s * (output - 1), output_tokens=output, prompt_tokens=10
    )


FAILED = MeasuredRequest(status=Status.FAILED, sent_s=0.0)

requests = st.lists(
    st.one_of(
        st.just(FAILED),
        st.just(MeasuredRequest(status=Status.UNFINISHED)),
        st.builds(
            answered,
            ttft_s=st.floats(0.001, 2.0),
            tpot_s=st.floats(0.001, 0.2),
            output=st.integers(1, 50),
        ),
    ),
    max_size=30,
)
limits = st.builds(GoodputLimits, ttft_s=st.floats(0.001, 2.0), tpot_s=st.floats(0.001, 0.2))
rules = st.sampled_from(sorted(GOODPUT_RULES))


def test_one_run_has_a_different_goodput_by_each_rule() -> None:
    run = (
        [answered()] * 4
        + [answered(output=1)] * 4
        + [answered(ttft_s=0.9), FAILED, MeasuredRequest(status=Status.UNFINISHED)]
    )
    found = {name: goodput(run, rule_of(name, LIMITS), duration_s=10.0) for name in GOODPUT_RULES}
    assert {name: (each.good_count, each.judged_count) for name, each in found.items()} == {
        "ullage": (8, 11),
        "vllm": (8, 11),
        "sglang": (8, 11),
        "guidellm": (4, 5),
        "aiperf": (4, 10),
        "inference-perf": (4, 9),
    }
    assert found["vllm"].rps == 0.8
    assert found["aiperf"].rps == 0.4


@given(requests=requests, limits=limits, name=rules)
def test_counts_never_exceed_what_they_are_out_of(
    requests: list[MeasuredRequest], limits: GoodputLimits, name: str
) -> None:
    found = goodput(requests, rule_of(name, limits))
    assert 0 <= found.good_count <= found.judged_count <= len(requests)
    assert found.good_count + found.undetermined_count <= sum(each.status is Status.OK for each in requests)
    assert (found.attained_fraction is None) == (found.judged_count == 0)


@given(requests=requests, limits=limits, name=rules, tighter=st.floats(0.1, 1.0))
def test_a_tighter_limit_never_makes_more_good(
    requests: list[MeasuredRequest], limits: GoodputLimits, name: str, tighter: float
) -> None:
    assert limits.ttft_s is not None
    closer = GoodputLimits(ttft_s=limits.ttft_s * tighter, tpot_s=limits.tpot_s)
    assert goodput(requests, rule_of(name, closer)).good_count <= goodput(requests, rule_of(name, limits)).good_count


@given(requests=requests, limits=limits)
def test_passing_single_tokens_never_counts_fewer_than_leaving_them_or_failing_them(
    requests: list[MeasuredRequest], limits: GoodputLimits
) -> None:
    by = {name: goodput(requests, rule_of(name, limits)).good_count for name in ("vllm", "guidellm", "aiperf")}
    assert by["vllm"] >= by["guidellm"] == by["aiperf"]


@given(requests=requests, limits=limits, name=rules)
def test_the_order_of_requests_does_not_matter(
    requests: list[MeasuredRequest], limits: GoodputLimits, name: str
) -> None:
    rule = rule_of(name, limits)
    assert goodput(requests, rule) == goodput(requests[::-1], rule)


def test_a_limit_is_met_when_it_is_reached_exactly() -> None:
    assert goodput([answered(ttft_s=0.5)], rule_of("ullage", LIMITS)).good_count == 1


def test_itl_is_the_tools_own_mean_where_it_has_one() -> None:
    own = MeasuredRequest(status=Status.OK, ttft_s=0.1, e2e_s=1.1, itl_s=0.09, output_tokens=51)
    rule = rule_of("guidellm", GoodputLimits(itl_s=0.05))
    assert goodput([own], rule).good_count == 0
    assert goodput([answered()], rule).good_count == 1


def test_an_unknown_length_is_undetermined_not_good() -> None:
    unknown = MeasuredRequest(status=Status.OK, ttft_s=0.1, e2e_s=1.0)
    found = goodput([unknown], rule_of("vllm", LIMITS))
    assert (found.good_count, found.undetermined_count) == (0, 1)


def point(kept: int, sent: int) -> Point:
    return Point(
        name="p",
        subject=LoadTestSubject(),
        load=OfferedLoad(loop=Loop.OPEN, offered_rps=1.0),
        duration_s=10.0,
        completed_count=sent,
        failed_count=0,
        requests=(answered(),) * kept,
    )


def test_a_sample_gives_a_share_and_no_rate() -> None:
    rule = rule_of("ullage", LIMITS)
    whole, part = goodput_of(point(40, 40), rule), goodput_of(point(5, 40), rule)
    assert whole is not None
    assert whole.rps == 4.0
    assert part is not None
    assert part.rps is None
    assert part.attained_fraction == 1.0
    assert goodput_of(point(0, 40), rule) is None


def test_an_unknown_rule_and_no_limit_are_errors() -> None:
    with pytest.raises(InputError, match="Did you mean guidellm"):
        rule_of("guidelm", LIMITS)
    with pytest.raises(InputError, match="without a limit every request is good"):
        rule_of("vllm", GoodputLimits())
