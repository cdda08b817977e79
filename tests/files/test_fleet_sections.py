"""Routing, tools and sites: what is written becomes assumptions, and nothing that is written ends in a traceback."""

from __future__ import annotations

import contextlib
import datetime
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.files.plan_file import PlanFile, read_plan_file
from ullage.files.sections.provenance import Provenance, file_provenance
from ullage.files.sections.routing import routing_of
from ullage.files.sections.sites import QUOTA_AGE, sites_of
from ullage.files.sections.tools import tools_of
from ullage.fleet.sites import place
from ullage.workload.demand.routing import RouteKind

DATED = datetime.date(2026, 11, 15)

HEAD = """
version: 1
service: sections
workload:
  classes:
    - {name: chat, rate: 4 req/s, longest_context: 8192, slo: {ttft_p95: 2s}}
pools:
  - {name: small, model: llama-3.1-8b, device: h100-sxm}
  - {name: large, model: qwen3-32b, device: h100-sxm}
"""


def provenance() -> Provenance:
    return file_provenance(file="plan.yaml", dated=DATED, is_example=False)


def read(more: str) -> PlanFile:
    return read_plan_file(HEAD + more, file="plan.yaml")


def test_an_escalation_is_read_in_order_with_its_provenance() -> None:
    file = read("routing: [{class: chat, escalation: [{pool: small, goes_on: 25%, success: 60%}, {pool: large}]}]")
    (route,) = routing_of(file.routing, provenance()).routes
    assert route.kind is RouteKind.ESCALATION
    assert route.reached_fractions == (1.0, 0.25)
    part = route.steps[0].part
    assert part is not None
    assert (part.name, part.value, part.evidence) == ("routing.chat.small.goes_on", 0.25, Evidence.STATED)
    # Whether the answer goes along was not stated: our choice, and listed as one.
    assert route.carries_answer is not None
    assert (route.carries_answer.evidence, route.carries_answer.decision) == (Evidence.ASSUMED, True)


def test_shares_are_read_and_must_add_up() -> None:
    file = read("routing: [{class: chat, shares: [{pool: small, share: 70%}, {pool: large, share: 30%}]}]")
    (route,) = routing_of(file.routing, provenance()).routes
    assert route.reached_fractions == (0.7, 0.3)
    short = read("routing: [{class: chat, shares: [{pool: small, share: 70%}]}]")
    with pytest.raises(InputError, match="add up to 1"):
        routing_of(short.routing, provenance())


def test_what_is_not_said_of_a_tool_has_a_sourced_default() -> None:
    file = read("tools: [{name: search, latency: 300ms, rate_limit: 40 req/s}]")
    (tool,) = tools_of(file.tools, ("chat",), provenance())
    assert tool.classes == ("chat",)
    assert (tool.latency.value, tool.latency.evidence) == (0.3, Evidence.STATED)
    assert tool.error_rate.evidence is Evidence.ASSUMED
    assert tool.error_rate.source.what
    assert tool.concurrency is None
    assert tool.limited_by == "rate limit"


def test_shares_of_regions_are_parts_of_one_whole() -> None:
    regions = (
        "sites: {regions: [{name: w, share: 60%, zones: [{name: wa}]}, {name: e, share: PART, zones: [{name: ea}]}]}"
    )
    right = read(regions.replace("PART", "40%")).sites
    assert right is not None
    assert [each.name for each in sites_of(right, "h100-sxm", provenance()).regions] == ["w", "e"]
    wrong = read(regions.replace("PART", "60%")).sites
    assert wrong is not None
    with pytest.raises(InputError, match=r"sum to 1\.2, not to 1"):
        sites_of(wrong, "h100-sxm", provenance())


def test_a_quota_has_its_own_date_and_an_age() -> None:
    file = read(
        "sites: {source: console, dated: 2026-11-01, regions: [{name: west, share: 100%, quotas: {h100-sxm: 16}, "
        "zones: [{name: a, quotas: {h100-sxm: 4}}, {name: b}]}]}"
    )
    assert file.sites is not None
    sites = sites_of(file.sites, "h100-sxm", provenance())
    quota = sites.zones[0].quota
    assert quota is not None
    assert (quota.name, quota.value, quota.source.what) == ("sites.west.a.h100-sxm.quota", 4, "console")
    assert (quota.source.date, quota.max_age) == (datetime.date(2026, 11, 1), QUOTA_AGE)
    assert quota.is_stale(datetime.date(2026, 12, 15))
    assert sites.zones[1].quota is None
    other = sites_of(file.sites, "l4", provenance())
    assert [each.quota for each in other.regions] == [None]
    assert [each.quota for each in other.zones] == [None, None]


scalars = st.one_of(
    st.sampled_from(
        ["1", "0", "-1", "25%", "101%", "0%", "800ms", "4 req/s", "kept", "true", "small", "chat", "", "~"]
    ),
    st.text(max_size=12),
    st.integers(-3, 10**9),
    st.floats(allow_nan=True),
    st.booleans(),
    st.none(),
)
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                "class shares escalation carries_answer pool share goes_on success name classes calls_per_task "
                "requests_per_task latency concurrency rate_limit error_rate while_waiting source dated regions zones "
                "quotas h100-sxm".split()
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)
GOOD = {
    "routing": [{"class": "chat", "escalation": [{"pool": "small", "goes_on": "25%"}, {"pool": "large"}]}],
    "tools": [{"name": "search", "latency": "1s", "concurrency": 4, "calls_per_task": 2}],
    "sites": {"regions": [{"name": "west", "quotas": {"h100-sxm": 8}, "zones": [{"name": "a"}]}]},
}


@given(st.sampled_from(sorted(GOOD)), nested)
def test_whatever_stands_in_a_section_is_read_or_refused(section: str, content: object) -> None:
    with contextlib.suppress(InputError):
        _use(read(f"{section}: {json.dumps(content)}"))


@given(st.sampled_from(sorted(GOOD)), st.data())
def test_a_good_section_with_one_value_changed_is_read_or_refused(section: str, data: st.DataObject) -> None:
    content = json.loads(json.dumps(GOOD[section]))
    where: object = content
    while True:
        places = list(where) if isinstance(where, dict) else list(range(len(where)))  # type: ignore[arg-type]
        at = data.draw(st.sampled_from(places))
        below = where[at]  # type: ignore[index]
        if not isinstance(below, dict | list) or data.draw(st.booleans()):
            where[at] = data.draw(nested)  # type: ignore[index]
            break
        where = below
    with contextlib.suppress(InputError):
        _use(read(f"{section}: {json.dumps(content)}"))


def _use(file: PlanFile) -> None:
    routing_of(file.routing, provenance()).check(["chat"], ["small", "large"])
    tools_of(file.tools, ("chat",), provenance())
    if file.sites is not None:
        place(3, sites_of(file.sites, "h100-sxm", provenance()), devices=2)
