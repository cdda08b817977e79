import { Spans } from "../charts/spans";
import { Legend } from "../charts/stacked";
import { Waterfall, type Fall } from "../charts/waterfall";
import type { Reconciliation } from "../document";
import { Chart, Fig, Nothing, Sentence, Table, useTold, View } from "../figure";
import { brief, latency, percent, seconds, show, spaced } from "../words";

const day = (text: string) => text.slice(0, 10);
const shown = (value: number | null, unit: string) => (value === null ? "not observed" : show(value, unit));
const signed = (value: number, unit = "") => `${value < 0 ? "−" : "+"}${brief(Math.abs(value))}${unit}`;
const TINTS: Record<string, number> = { holds: 2, drifted: 5, unknown: 7 };

export function ReconcileView() {
  const { plan } = useTold();
  const { found, updates } = plan.json.reconciled!;
  return (
    <View id="reconcile" question="Did the plan come true?">
      <Sentence>
        From {day(found.start)} to {day(found.end)} the plan of {found.planned_on}{" "}
        {found.past.length ? `is past its tolerances: ${found.past.join("; ")}.` : "is within its tolerances."}
        {found.causes && (
          <>
            {" "}
            It planned {brief(found.causes.planned.replicas)} replicas; with what was observed {brief(found.causes.observed.replicas)}{" "}
            are needed{found.ran_replicas !== null && `, and ${brief(found.ran_replicas)} ran`}.
          </>
        )}
      </Sentence>
      <Scores found={found} />
      <Causes found={found} />
      <Inputs found={found} />
      <Ages found={found} />
      <Slos found={found} />
      {updates.length > 0 && (
        <Table
          caption="Proposed changes to the plan file"
          rows={updates}
          columns={[
            { head: "key", cell: (row) => <code>{row.key}</code> },
            { head: "now", tight: true, cell: (row) => row.old },
            { head: "proposed", tight: true, cell: (row) => row.new },
            { head: "because", wide: true, cell: (row) => row.evidence },
          ]}
        />
      )}
      {found.notes.length + found.left_out.length > 0 && (
        <details class="notes">
          <summary>What the data leaves open ({found.notes.length + found.left_out.length})</summary>
          <ul>
            {[...found.left_out, ...found.notes.map((each) => `${each.quantity}: ${each.what}`)].map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        </details>
      )}
    </View>
  );
}

function Scores({ found }: { found: Reconciliation }) {
  // A line with a note is planned and observed on two bases, so that its ratio is no error of the plan.
  const both = found.scorecard.filter((each) => each.note === "" && each.planned_value !== null && each.planned_value > 0 && each.observed_value !== null);
  const ratio = (row: (typeof both)[number]) => row.observed_value! / row.planned_value!;
  return (
    <>
      {both.length > 0 && (
        <Chart title="Observed as a multiple of planned" caption="Scorecard lines planned and observed on the same basis; the dashed line is a perfect prediction.">
          <Spans
            kind="dot"
            label={`Observed over planned: ${both.map((each) => `${each.what} ${brief(ratio(each))}`).join(", ")}`}
            format={(value) => `${brief(value)} ×`}
            most={Math.max(2, Math.min(4, ...both.map((each) => ratio(each) * 1.1)))}
            rows={both.map((each) => ({ label: each.what, value: ratio(each), shown: `${brief(ratio(each))} ×`, tint: 0 }))}
            rules={[{ at: 1, label: "as planned" }]}
          />
        </Chart>
      )}
      <Table
        caption="Planned beside observed"
        rows={found.scorecard}
        columns={[
          { head: "line", cell: (row) => row.what },
          { head: "planned", right: true, cell: (row) => (row.planned_value === null ? "–" : show(row.planned_value, row.unit)) },
          { head: "observed", right: true, cell: (row) => shown(row.observed_value, row.unit) },
          {
            head: "change",
            right: true,
            cell: (row) => (row.planned_value && row.observed_value !== null ? signed(100 * (row.observed_value / row.planned_value - 1), " %") : ""),
          },
          { head: "how", wide: true, cell: (row) => row.note },
        ]}
      />
    </>
  );
}

/** From the replicas that were planned to those that what was observed needs, each cause charged with its part. */
function Causes({ found }: { found: Reconciliation }) {
  if (!found.causes) return <Nothing>The error has no causes here: {found.left_out.join("; ") || "they are worked out for plans of one pool"}.</Nothing>;
  const { planned, observed, shares } = found.causes;
  const moved = shares.filter((each) => Math.abs(each.shapley.replicas) >= 0.05);
  const rows: Fall[] = [
    { label: "planned", value: planned.replicas, shown: brief(planned.replicas), isSum: true },
    ...moved.map<Fall>((each) => ({
      label: spaced(each.cause),
      value: each.shapley.replicas,
      shown: signed(each.shapley.replicas),
      remark: each.shapley.usd_per_month === null ? "" : `${signed(Number(each.shapley.usd_per_month.toPrecision(3)))} USD a month`,
      tone: each.shapley.replicas > 0 ? "evidence" : "reserve",
    })),
    { label: "needed", value: observed.replicas, shown: brief(observed.replicas), isSum: true },
  ];
  return (
    <Chart
      title="Error by cause, in replicas"
      caption={`Contribution of each cause, by Shapley over all causes${moved.length < shares.length ? "; those below a twentieth of a replica are left out" : ""}. The highest load of one replica, simulated with what was observed, scales the planned fleet.`}
    >
      <Waterfall rows={rows} label={`Error by cause: ${rows.map((each) => `${each.label} ${each.shown}`).join(", ")} replicas`} />
    </Chart>
  );
}

function Inputs({ found }: { found: Reconciliation }) {
  const { plan } = useTold();
  const seen = found.inputs.filter((each) => each.observed_value !== null && each.stated_value > 0);
  return (
    <>
      {seen.length > 0 && (
        <Chart title="Assumptions: observed as a multiple of stated" caption="With the interval of the observation.">
          <Spans
            kind="dot"
            label={`Assumptions observed over stated: ${seen.map((each) => `${each.name} ${brief(each.observed_value! / each.stated_value)}, ${each.verdict}`).join("; ")}`}
            format={(value) => `${brief(value)} ×`}
            most={Math.max(2, Math.min(4, ...seen.map((each) => ((each.high ?? each.observed_value!) / each.stated_value) * 1.1)))}
            rows={seen.map((each) => ({
              label: each.name,
              value: each.observed_value! / each.stated_value,
              low: each.low === null ? null : each.low / each.stated_value,
              high: each.high === null ? null : each.high / each.stated_value,
              shown: `${brief(each.observed_value! / each.stated_value)} ×`,
              name: plan.known(each.name)?.name,
              tint: TINTS[each.verdict] ?? 7,
            }))}
            rules={[{ at: 1, label: "as stated" }]}
          />
          <Legend entries={[{ name: "holds", tint: 2 }, { name: "drifted", tint: 5 }, { name: "unknown", tint: 7 }]} />
        </Chart>
      )}
      <Table
        caption="Assumptions against production"
        rows={found.inputs}
        columns={[
          { head: "assumption", cell: (row) => (plan.known(row.name) ? <Fig of={plan.known(row.name)} text={row.name} /> : row.name) },
          { head: "stated", right: true, cell: (row) => show(row.stated_value, row.unit) },
          { head: "observed", right: true, cell: (row) => shown(row.observed_value, row.unit) },
          { head: "interval", right: true, cell: (row) => (row.low === null || row.high === null ? "" : `${show(row.low, row.unit)} to ${show(row.high, row.unit)}`) },
          { head: "verdict", tight: true, cell: (row) => <strong class={row.verdict === "drifted" ? "bad" : ""}>{row.verdict}</strong> },
          { head: "why", wide: true, cell: (row) => row.why },
        ]}
      />
    </>
  );
}

function Ages({ found }: { found: Reconciliation }) {
  const { plan } = useTold();
  if (!found.stale.length) return <p class="beside">No assumption that production was not asked about is past its maximum age.</p>;
  return (
    <Chart title="Assumptions past their maximum age, in days" caption="Assumptions that production does not show; each with its age and its maximum age.">
      <Spans
        label={`Ages: ${found.stale.map((each) => `${each.name} ${each.age_days} of ${each.max_age_days} days`).join(", ")}`}
        format={(value) => brief(value)}
        rows={[...found.stale]
          .sort((a, b) => b.age_days / b.max_age_days - a.age_days / a.max_age_days)
          .slice(0, 15)
          .map((each) => ({ label: each.name, value: each.age_days, shown: `${each.age_days} of ${each.max_age_days} d`, name: plan.known(each.name)?.name, tint: 1 }))}
      />
    </Chart>
  );
}

function Slos({ found }: { found: Reconciliation }) {
  const { shortfall } = found;
  const scores = found.forecast.filter((each) => each.week === "whole");
  const all = scores.filter((each) => each.class_name === "all");
  const whole = all.length ? all : scores;
  return (
    <>
      <Table
        caption="SLOs over the whole period"
        rows={found.slos}
        columns={[
          { head: "SLO", cell: (row) => `${row.class_name} ${latency(row.slo)}` },
          { head: "limit", right: true, cell: (row) => seconds(row.limit_s) },
          { head: "observed", right: true, cell: (row) => (row.low_s === null ? "not observed" : `${seconds(row.low_s)} to ${row.high_s === null ? "more" : seconds(row.high_s)}`) },
          { head: "outcome", tight: true, cell: (row) => <strong class={row.attained === "violated" ? "bad" : ""}>{row.attained}</strong> },
        ]}
      />
      <p class="beside">
        Of {brief(shortfall.hours)} hours {brief(shortfall.violated_hours)} surely violated an SLO, {brief(shortfall.undecided_hours)}{" "}
        cannot be told, and {brief(shortfall.above_plan_hours)} had more traffic than was planned for.
        {whole.map(
          (each) =>
            ` The forecast${each.class_name === "all" ? "" : ` of ${each.class_name}`} was off by ${percent(each.wape_fraction)} (WAPE), biased by ${signed(100 * each.bias_fraction, " %")}; its band held ${percent(each.coverage_fraction)} of the hours, of ${percent(each.nominal_fraction)} that it states.`,
        )}
      </p>
    </>
  );
}
