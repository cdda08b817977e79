"""`ullage cost` on the built-in example and on plan files: the bill, its attribution, its FOCUS file."""

from __future__ import annotations

import csv
import datetime
import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from support.planned import planned
from ullage import verbs
from ullage.cli.app import run
from ullage.cost.bill_charges import charge_rows, month_after
from ullage.cost.units import UnitCost
from ullage.emit.focus import focus_csv
from ullage.errors import InputError, Rejection
from ullage.evidence import Evidence, Figure, Source, number
from ullage.report.money.bill_page import attribution_parts, bill_parts, change_table, commitment_parts, units_table
from ullage.report.money.budget_page import budget_sentence
from ullage.scaling.followed import FollowedWeek
from ullage.uncertainty.budgeting import BudgetChoice, budget
from ullage.verbs.cost import CostAnswer, bill_of

pytestmark = pytest.mark.slow

AS_OF = datetime.date(2026, 11, 15)
PLAN = """
version: 1
service: tickets
workload:
  classes:
    - name: chat
      rate: 6 req/s
      longest_context: 8192
      slo: {ttft_p95: 2s}
pool:
  model: llama-3.1-8b
  device: h100-sxm
cost:
  zone_share: 50%
  log_retention: 365 d
  evaluation: {share: 1%, suites_per_month: 4, items_per_suite: 500}
  engineering: {on_call: 20h, changes: 30h}
  tool_calls: {}
  tasks:
    - name: ticket
      requests: {chat: 3}
      attempts: 1.2
      success: 80%
"""


@pytest.fixture(scope="module")
def answer() -> CostAnswer:
    found = verbs.cost(as_of=AS_OF, seed=0)
    assert not isinstance(found, Rejection)
    return found


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cost") / "plan.yaml"
    path.write_text(PLAN)
    return path


def _text(parts: list[object]) -> str:
    console = Console(file=io.StringIO(), width=160, record=True)
    console.print(*parts, sep="\n")
    return console.export_text()


def test_the_example_is_billed_and_divided_to_the_cent(answer: CostAnswer) -> None:
    bill = answer.bill
    assert bill.total_cents > 0
    assert bill.cents_of("compute_usage") > 0.5 * bill.total_cents
    assert bill.cents_of("idle_reserve") > 0
    assert bill.cents_of("failed_work") > 0
    assert answer.attribution is not None
    assert answer.attribution.total_cents == bill.total_cents
    assert {each.name for each in answer.spread} >= {"chat", "coding", "idle", "reserve"}
    assert len(answer.spread[0].cents) == 8


def test_the_class_that_makes_most_of_the_fleet_necessary_pays_most(answer: CostAnswer) -> None:
    """Coding keeps the example's devices busy for a sixth of the time, and without it two thirds of them go."""
    (found,) = answer.bill.use.causes.values()
    assert sum(found.caused.values()) == pytest.approx(found.replicas)
    assert found.replicas - found.without["coding"] > 0.5 * found.replicas
    assert found.without["coding"] == found.alone["chat"]
    assert answer.attribution is not None
    assert answer.attribution.choice.rule == "causation"
    coding, chat = (answer.attribution.row(each).total_cents for each in ("coding", "chat"))
    assert coding > 1.5 * chat


def test_the_page_says_the_sum_and_the_success(answer: CostAnswer) -> None:
    text = _text([*bill_parts(answer.bill)])
    assert f"{answer.bill.total_usd:,.2f} USD for 730 hours" in text
    assert "USD per success" in text
    # The example has every kind of line at work but tokens that a provider sells.
    assert {each.name for each in answer.bill.lines if each.cents} >= {
        "compute_usage", "idle_reserve", "failed_work", "storage", "network", "tool_apis", "observability",
        "evaluation", "engineering",
    }  # fmt: skip
    assert answer.attribution is not None
    assert "gpu_time" in _text([*attribution_parts(answer.attribution, answer.spread)])


@pytest.mark.slow
def test_a_plan_file_says_drivers_and_tasks(plan_file: Path) -> None:
    found = verbs.cost(plan_file, as_of=AS_OF)
    assert not isinstance(found, Rejection)
    bill = found.bill
    silent = {each.name for each in bill.unpriced}
    assert silent.isdisjoint({"engineering", "tool_apis", "network", "provider_tokens"})
    # The book has no price of a judgement, and the page says what to give.
    text = _text([*bill_parts(bill)])
    assert "evaluation" in silent
    assert "not priced" in text.lower()
    # 50 hours of one pool: the price of an hour is the book's.
    hour = bill.quotes.item("engineering")
    assert bill.cents_of("engineering") == pytest.approx(50 * float(getattr(hour, "value", 0)) * 100, abs=1)
    task = next(each for each in bill.units if each.per == "successful task")
    request = next(each for each in bill.units if each.name == "bill.per_request_usd")
    assert task.usd == pytest.approx(1.2 * 3 * request.usd / 0.8, rel=1e-3)


@pytest.mark.slow
def test_a_class_that_a_provider_serves_is_on_the_bill(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    bought = "{name: hard, provider: openai, model: gpt-5-mini, rate: 1 req/s, prompt_tokens: 2k, output_tokens: 500"
    task = "    - {name: case, requests: {chat: 1}, escalated: 20%, escalated_requests: {hard: 1}, success: 90%}\n"
    file.write_text(PLAN + task + f"  bought: [{bought}, cached: 50%, success: 90%}}]\n")
    found = verbs.cost(file, as_of=AS_OF)
    assert not isinstance(found, Rejection)
    line = next(each for each in found.bill.lines if each.name == "provider_tokens")
    prices = {kind.value: float(getattr(each, "value", 0.0))
              for kind, each in found.bill.quotes.tokens["openai gpt-5-mini"].items()}  # fmt: skip
    one = 1000 * prices["input"] + 1000 * prices["cached read"] + 500 * prices["output"]
    assert line.usd == pytest.approx(730 * 3600 * one * 0.9, abs=0.01)
    assert found.bill.figures["bill.external_usd"].value == pytest.approx(730 * 3600 * one, abs=0.02)
    unit = {each.name: each.usd for each in found.bill.units}
    assert unit["bill.case.per_task_usd"] == pytest.approx(
        unit["bill.chat.per_request_usd"] + 0.2 * unit["bill.hard.per_request_usd"], rel=1e-3
    )


@pytest.mark.slow
def test_a_log_divides_the_bill_by_tenant(plan_file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = ["arrival_s,duration_s,ttft_s,prompt_tokens,output_tokens,tenant,status"]
    for place in range(200):
        tenant = ("acme", "globex", "")[place % 3]
        rows.append(f"{place * 0.5},{4 if tenant == 'acme' else 2},0.2,800,{place % 7 * 20 + 1},{tenant},ok")
    log.write_text("\n".join(rows) + "\n")
    found = verbs.cost(plan_file, usage=[log], known=["acme", "globex"], rule="gpu_time", as_of=AS_OF)
    assert not isinstance(found, Rejection)
    assert found.attribution is not None
    names = [each.name for each in found.attribution.rows]
    assert names[:3] == ["acme", "globex", "unallocated"]
    assert found.attribution.total_cents == found.bill.total_cents
    acme, globex = found.attribution.row("acme"), found.attribution.row("globex")
    assert acme.total_cents > 1.4 * globex.total_cents
    assert any("200 requests of log.csv" in note for note in found.notes)


def test_a_focus_file_keeps_the_rules_and_sums_to_the_bill(answer: CostAnswer) -> None:
    for attribution in (None, answer.attribution):
        text = focus_csv(charge_rows(answer.bill, month_after(AS_OF), attribution), account_id="plan")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert sum(Decimal(row["EffectiveCost"]) for row in rows) == Decimal(answer.bill.total_cents).scaleb(-2)
        assert {row["ChargePeriodStart"] for row in rows} == {"2026-12-01T00:00:00Z"}
    assert rows[0]["AllocatedMethodId"] == "ullage:causation"
    assert answer.focus().splitlines()[0].count(",") > 30


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"by": "team"}, "is not known"),
        ({"rule": "gpu"}, "is not known"),
        ({"basis": "allocation"}, "no group has a share"),
        ({"against": "gpt"}, "does not name a provider"),
        ({"against": "nobody/model"}, "has no price for input and output tokens"),
    ],
)
def test_a_wrong_question_is_answered_with_what_to_ask(asked: dict[str, str], said: str, plan_file: Path) -> None:
    with pytest.raises(InputError, match=said):
        verbs.cost(plan_file, as_of=AS_OF, **asked)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_plan_without_a_log_knows_no_tenants(plan_file: Path) -> None:
    with pytest.raises(InputError, match="the plan does not say the tenant of a request"):
        verbs.cost(plan_file, by="tenant", as_of=AS_OF)


@pytest.mark.slow
@pytest.mark.fresh
def test_the_command_prints_json_of_the_same_bytes(
    plan_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    focus = tmp_path / "focus.csv"
    arguments = ["cost", str(plan_file), "--json", "--quiet", "--force", "--as-of", "2026-11-15", "--focus", str(focus)]
    printed = []
    for _ in range(2):
        assert run(arguments) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    found = json.loads(printed[0])
    assert found["schema"] == "ullage.cost/2"
    assert sum(line["usd"] or 0.0 for line in found["bill"]["lines"]) == pytest.approx(found["bill"]["total_usd"])
    assert focus.read_text().startswith("BilledCost,")
    nowhere = str(tmp_path / "absent" / "focus.csv")
    assert run([*arguments[:-1], nowhere]) == 2
    assert "--focus = " in capsys.readouterr().err


@pytest.mark.slow
def test_a_commitment_is_advised_by_the_hours_that_need_it(tmp_path: Path) -> None:
    (tmp_path / "contract.csv").write_text(
        "what,name,provider,region,instance,devices,purchase,price,date,source\n"
        "device,h100-sxm,aws,us-east-1,p5.48xlarge,8,1y-no-upfront,30 USD/h,2026-10-01,our agreement\n"
        "device,h100-sxm,aws,us-east-1,p5.48xlarge,8,on-demand,50 USD/h,2026-10-01,our agreement\n"
    )
    plan = tmp_path / "plan.yaml"
    prices = "prices: {provider: aws, region: us-east-1, files: [{path: contract.csv}]}\n"
    plan.write_text(PLAN.replace("rate: 6 req/s", "rate: 200 req/s") + prices)
    found = verbs.cost(plan, commit="1y-no-upfront", as_of=AS_OF)
    assert not isinstance(found, Rejection)
    (advice,) = found.commitments
    assert 0 < advice.best.committed_replicas < advice.levels[-1].committed_replicas
    assert advice.saved_usd > 0.0
    assert "60 % of the hours" in advice.figures[0].formula
    assert "How much to commit, of steady replicas that follow demand" in _text([*commitment_parts(found.commitments)])
    # These machines are held: what the level leaves on demand is paid in all hours too.
    assert any("scaling.machines: held" in each and "ullage buy" in each for each in found.notes)


@pytest.mark.slow
def test_tenants_come_from_the_plans_own_trace(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    times = np.cumsum(rng.exponential(0.4, 9000))
    rows = ["arrival_s,duration_s,ttft_s,prompt_tokens,output_tokens,who,class,status"]
    for place, at in enumerate(times):
        rows.append(f"{at:.3f},3.0,0.2,{400 + place % 50},{20 + place % 90},{'ab'[place % 3 == 0]},chat,ok")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n")
    plan = tmp_path / "plan.yaml"
    text = PLAN.replace("workload:\n", "workload:\n  trace: [log.csv]\n  columns: {tenant: who}\n")
    plan.write_text(text.replace("      rate: 6 req/s\n", ""))
    found = verbs.cost(plan, by="tenant", as_of=AS_OF)
    assert not isinstance(found, Rejection)
    assert found.attribution is not None
    paid = {each.name: each.total_cents for each in found.attribution.rows}
    assert paid["a"] == pytest.approx(2 * paid["b"], rel=0.05)
    assert found.attribution.total_cents == found.bill.total_cents


@pytest.mark.slow
def test_one_more_of_each_is_planned_again(plan_file: Path) -> None:
    found = verbs.cost(plan_file, marginal=True, set=["workload.classes.chat.cached_fraction=80%"], as_of=AS_OF)
    assert not isinstance(found, Rejection)
    added = {each.name: each.cents for each in found.marginals}
    assert set(added) == {"demand", "SLO", "nine", "cache"}
    assert all(cents is None or cents >= 0 for cents in added.values())
    assert found.replicas[0].value > 0  # type: ignore[operator]


@pytest.mark.slow
def test_another_plan_file_is_the_bill_before(plan_file: Path, tmp_path: Path) -> None:
    cheaper = tmp_path / "cheaper.yaml"
    cheaper.write_text(PLAN.replace("engineering: {on_call: 20h, changes: 30h}", "engineering: {on_call: 2h}"))
    found = verbs.cost(cheaper, before=plan_file, as_of=AS_OF)
    assert not isinstance(found, Rejection)
    assert found.change is not None
    assert found.change.after_cents == found.bill.total_cents
    assert found.change.of("policy") < 0
    assert found.change.of("coverage") < 0


def test_two_bills_side_by_side_say_why(answer: CostAnswer) -> None:
    from support.bills import with_devices_at
    from ullage.cost.bill import monthly_bill
    from ullage.cost.change import explain_change

    cheaper = monthly_bill(answer.bill.use, with_devices_at(answer.bill.quotes, 0.5), answer.bill.policy)
    change = explain_change(answer.bill, cheaper)
    assert change.of("price") == change.cents < 0
    assert "price" in _text([change_table(change)])


def test_a_budget_pays_for_as_large_a_part_of_the_fleet_as_the_bill() -> None:
    """Where machines are released, a month of a budget is no more the whole fleet's than a month of the bill is."""
    held = planned(PLAN)
    half = replace(held.pools[0], scaling=replace(held.pools[0].scaling, week=FollowedWeek(
        paid_replicas=(held.pools[0].steady_fleet.replicas / 2,), needed_replicas=(1.0,))))  # fmt: skip
    settings = replace(held.spec.scaling, machines=replace(held.spec.scaling.machines, value="released"))
    released = replace(held, pools=(half,), spec=replace(held.spec, scaling=settings))
    bill = bill_of(held)
    sums = [budget(each, bill, BudgetChoice(months=1), measured={}).middle_usd for each in (held, released)]
    steady_usd = sums[0] - sums[1]
    parts = (bill.figures[name] for name in ("bill.compute_usd", "bill.failed_work_usd"))
    share = sum(number(each) for each in parts) / bill.total_usd
    assert steady_usd == pytest.approx(share * sums[0] / 2.0, rel=0.05)


@pytest.mark.slow
def test_a_quarter_is_budgeted_and_a_change_of_it_is_a_sentence(plan_file: Path, answer: CostAnswer) -> None:
    found = verbs.cost(plan_file, months=3, fleet="following", as_of=AS_OF)
    assert not isinstance(found, Rejection)
    budget = found.budget
    assert budget is not None
    assert budget.follows
    assert [each.month.isoformat() for each in budget.months] == ["2026-12-01", "2027-01-01", "2027-02-01"]
    assert sum(budget.causes.values()) == pytest.approx(budget.middle_usd - budget.today_usd, abs=0.1)
    assert [each.name for each in found.headlines()][-3:] == ["3 months, P10", "3 months, P50", "3 months, P90"]
    assert "USD from 2026-12 to 2027-02 (P10" in budget_sentence(budget)
    said = found.beside(replace(found, budget=replace(budget, usd=budget.usd / 1.25)))
    assert said.startswith("A month costs")
    assert "(+25 %; P10" in said
    assert found.beside(answer).endswith(").")


@pytest.mark.parametrize(
    ("asked", "said"), [({"fleet": "floating"}, "is not known"), ({"by": "product,team"}, "is not known")]
)
def test_a_fleet_or_pair_that_is_none_is_refused_before_the_work(
    asked: dict[str, str], said: str, plan_file: Path
) -> None:
    with pytest.raises(InputError, match=said):
        verbs.cost(plan_file, as_of=AS_OF, **asked)  # type: ignore[arg-type]


def test_a_log_without_the_dimension_or_the_known_names_is_refused(plan_file: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("arrival_s,prompt_tokens,output_tokens,tenant\n0,10,10,acme\n1,10,10,acme\n")
    with pytest.raises(InputError, match="has no product of requests"):
        verbs.cost(plan_file, by="product", usage=[log], as_of=AS_OF)
    with pytest.raises(InputError, match=r"no request of log\.csv has any of these names"):
        verbs.cost(plan_file, by="tenant", usage=[log], known=["globex"], as_of=AS_OF)


def test_a_criterion_is_said_once_whoever_shares_it() -> None:
    """A model that serves two classes has the criteria of both."""
    source = Source(what="a test", where="tests", date=AS_OF)
    figure = Figure(name="unit", value=1.0, unit="USD", sources=(source,), own_evidence=Evidence.STATED)
    both = {"agent": "in 6 s", "ask": "in 3 s", "deepseek-v3": "in 6 s; in 3 s"}
    units = [
        UnitCost(name=of, per="success", of=of, figure=figure, model="m", criterion=said, region="r", dates=())
        for of, said in both.items()
    ]
    assert units_table(units).caption == "A success is in 6 s; in 3 s."
