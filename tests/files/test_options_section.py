"""`options:` of a plan file: names are looked up, what is unknown is refused with the nearest, the rest is decided."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from ullage.errors import InputError
from ullage.evidence import Evidence
from ullage.load.plan import load_plan
from ullage.planning.options.candidates import candidates_of
from ullage.planning.options.lead_times import LeadTimes
from ullage.planning.options.settings import MOST_CANDIDATES
from ullage.planning.spec import PlanSpec

AS_OF = datetime.date(2026, 11, 15)

PLAN = """
version: 1
service: chat
dated: 2026-11-15
workload:
  classes:
    - {{name: chat, rate: 6 req/s, longest_context: 8192, slo: {{ttft_p95: 2s}}}}
pool: {{model: qwen3-32b, device: h200-sxm, tensor_parallel: 2}}
options: {options}
"""


def spec_of(tmp_path: Path, options: str) -> PlanSpec:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN.format(options=options))
    return load_plan(file, as_of=AS_OF)


def names(spec: PlanSpec) -> list[str]:
    return [each.name for each in candidates_of(spec.pool, spec.options, book=None, buying=spec.buying)]


def test_nothing_said_compares_the_usual_devices(tmp_path: Path) -> None:
    found = names(spec_of(tmp_path, "{}"))
    assert found[0] == "h200-sxm tp2"
    assert {each.split()[0] for each in found} == {"h100-sxm", "h200-sxm", "b200-sxm"}


def test_devices_variants_and_settings_are_multiplied_out_once(tmp_path: Path) -> None:
    spec = spec_of(
        tmp_path,
        "{devices: [H200, b200], tensor_parallel: [2], models: {qwen3-32b: [qwen3-32b-fp8]}, kv_dtypes: [auto, fp8]}",
    )
    found = names(spec)
    assert found[0] == "h200-sxm tp2"
    assert "b200-sxm tp2, qwen3-32b-fp8, kv fp8" in found
    assert len(found) == len(set(found)) == 9  # 2 devices x 2 models x 2 precisions, and the pool as it is


def test_axes_are_decisions_of_the_file_and_lead_times_are_stated(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "{devices: [h200-sxm], lead_times: {quota_request: 21d, months: 3}}")
    (axis,) = spec.options.stated
    assert (axis.name, axis.value, axis.decision) == ("options.devices", "h200-sxm", True)
    lead = spec.options.lead
    assert (lead.quota.value, lead.quota.evidence) == (21 * 86_400.0, Evidence.STATED)
    assert lead.delivery == LeadTimes().delivery
    assert [each.name for each in lead.stated] == ["lead.quota_request", "lead.months"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("{devices: [h300]}", "h300"),
        ("{device: [h200-sxm]}", "Did you mean devices"),
        ("{models: {qwen3-8b: [qwen3-8b]}}", "options.models"),
        ("{models: {qwen3-32b: [qwen9]}}", "qwen9"),
        ("{lead_times: {quota_request: 3}}", "quota_request"),
        ("{tensor_parallel: [0]}", "tensor_parallel"),
    ],
)
def test_what_is_unknown_or_without_unit_is_refused(tmp_path: Path, options: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        spec_of(tmp_path, options)


def test_a_list_nobody_would_read_is_refused(tmp_path: Path) -> None:
    budgets = ", ".join(str(1024 * number) for number in range(1, 100))
    spec = spec_of(tmp_path, f"{{devices: [h200-sxm], token_budgets: [{budgets}]}}")
    with pytest.raises(InputError, match=f"more than {MOST_CANDIDATES}"):
        names(spec)
