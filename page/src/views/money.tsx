import { Stacked } from "../charts/stacked";
import { Treemap } from "../charts/treemap";
import type { BillLine } from "../document";
import { Chart, Fig, Named, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, part, spaced, usd } from "../words";

const RULES: Record<string, string> = {
  causation: "by causation",
  gpu_time: "by GPU time",
  kv_token_seconds: "by KV-token-seconds",
  tokens: "by tokens",
  weighted_tokens: "by weighted tokens",
  requests: "by requests",
  shapley: "by busy-time Shapley",
  peak: "by Shapley of the peak",
};

export function MoneyView() {
  const { plan } = useTold();
  const { summary } = plan;
  const lines = plan.json.series?.bill ?? [];
  const paid = lines.filter((each) => each.usd > 0);
  const names = [...new Set(paid.map((each) => each.name))];
  return (
    <View id="money" question="What does the month cost, and who causes it?">
      <Sentence>
        {summary.total_usd ? (
          <>
            <Fig of={summary.total_usd} /> a month, of which <Named name="bill.fixed_usd" /> are fixed and{" "}
            <Named name="bill.idle_reserve_usd" /> pay for reserves; a success costs{" "}
            <Fig of={summary.per_success} text={summary.per_success ? `${brief(Number(summary.per_success.value))} USD` : undefined} />.
            Prices: {summary.prices}.
          </>
        ) : (
          "Nothing of this plan is priced: only replicas and devices are counted."
        )}
      </Sentence>
      {paid.length ? (
        <>
          <Chart title="The bill of a month by line" caption="Area is the share of the bill; unpriced lines are left out.">
            <Treemap
              label={`The bill: ${paid.map((each) => `${lineName(each)} ${usd(each.usd)} USD`).join(", ")}`}
              tiles={paid.map((each) => ({
                label: lineName(each, plan.pools.length > 1),
                value: each.usd,
                shown: `${usd(each.usd)} USD`,
                name: each.figure,
                tint: names.indexOf(each.name) % 8,
              }))}
            />
          </Chart>
          <Bill lines={lines} />
        </>
      ) : (
        <Nothing>There is no bill to draw. Give prices, and plan again with this version.</Nothing>
      )}
      <Units />
      <Attributions />
      <Notes stage="bill" />
    </View>
  );
}

const lineName = (line: BillLine, pool = false) => [spaced(line.name), pool && line.pool, line.item].filter(Boolean).join(", ");

function Bill({ lines }: { lines: BillLine[] }) {
  const { plan } = useTold();
  const total = lines.reduce((sum, each) => sum + each.usd, 0) || 1;
  const several = plan.pools.length > 1;
  return (
    <Table
      caption="The bill line by line"
      rows={lines}
      columns={[
        { head: "line", cell: (row) => lineName(row) },
        ...(several ? [{ head: "pool", cell: (row: BillLine) => row.pool }] : []),
        { head: "a month", right: true, cell: (row) => (row.is_priced ? <Fig of={row.figure ? plan.known(row.figure) : undefined} /> : "not priced") },
        { head: "share", right: true, cell: (row) => (row.is_priced ? part(row.usd / total) : "") },
        { head: "kind", tight: true, cell: (row) => `${row.behaviour}, ${row.sharing}` },
        { head: "to give", wide: true, cell: (row) => row.missing },
      ]}
    />
  );
}

function Units() {
  const { plan } = useTold();
  const rows = (plan.stage("bill")?.figures ?? [])
    .filter((each) => each.includes("per_"))
    .map((each) => plan.known(each))
    .filter((each) => each !== undefined)
    .filter((each) => each.unit === "USD");
  if (!rows.length) return null;
  return (
    <Table
      caption="Unit costs"
      rows={rows}
      columns={[
        { head: "of one", cell: (row) => spaced(row.name.replace(/^bill\./, "").replace(/_usd$/, "").replace(".per_", " ").replace(/^per_/, "")) },
        { head: "costs", right: true, cell: (row) => <Fig of={row} text={typeof row.value === "number" ? `${brief(row.value)} USD` : undefined} /> },
        { head: "how", wide: true, cell: (row) => row.formula ?? "" },
      ]}
    />
  );
}

function Attributions() {
  const { plan } = useTold();
  const rules = plan.json.series?.rules ?? [];
  const names = Object.keys(rules[0]?.cents ?? {});
  if (!rules.length || !names.length) return <Nothing>Usage is unknown, so the bill is not attributed.</Nothing>;
  const groups = rules.filter((each) => !["idle", "reserve"].includes(each.name));
  const tint = (name: string) => (name === "idle" ? 7 : name === "reserve" ? 4 : groups.findIndex((each) => each.name === name) % 4);
  // One class has the same part by every rule: one bar says so.
  const drawn = groups.length > 1 ? names : names.slice(0, 1);
  return (
    <>
      <p class="lead">
        {plan.summary.causes.map((each, at) => (
          <span key={each.name}>
            {at > 0 && ", "}
            {each.name} causes <Fig of={each.bill} /> of the bill with <Fig of={each.requests} /> of the requests
          </span>
        ))}
        {plan.summary.causes.length > 0 && ". "}
        {cause(groups, names)} Idle time and reserves stay visible as rows of their own.
      </p>
      <Chart title="The same bill by attribution rule, USD a month" caption="Every rule that the usage allows; causation is Shapley over the fleet that each class makes necessary.">
        <Stacked
          label={`Attribution by rule: ${names.map((rule) => `${RULES[rule] ?? rule}: ${rules.map((each) => `${each.name} ${usd((each.cents[rule] ?? 0) / 100)} USD`).join(", ")}`).join("; ")}`}
          bars={drawn.map((rule) => ({
            label: groups.length > 1 ? (RULES[rule] ?? spaced(rule)) : "by every rule",
            parts: rules.map((each) => ({
              label: each.name,
              value: (each.cents[rule] ?? 0) / 100,
              shown: `${usd((each.cents[rule] ?? 0) / 100)}`,
              tint: tint(each.name),
            })),
          }))}
        />
      </Chart>
      <details>
        <summary>The attribution as a table</summary>
        <Table
          caption="USD a month by rule"
          rows={names}
          columns={[
            { head: "rule", cell: (row) => RULES[row] ?? spaced(row) },
            ...rules.map((each) => ({ head: each.name, right: true, cell: (row: string) => usd((each.cents[row] ?? 0) / 100) })),
          ]}
        />
      </details>
    </>
  );
}

/** What the rule does to the group that it moves most. */
function cause(groups: { name: string; cents: Record<string, number> }[], names: string[]): string {
  if (groups.length < 2) return `What is neither idle nor reserve is all of ${groups[0]?.name ?? "no class"}.`;
  const spread = groups.map((each) => {
    const cents = names.map((rule) => each.cents[rule] ?? 0);
    return { name: each.name, low: Math.min(...cents) / 100, high: Math.max(...cents) / 100 };
  });
  const most = spread.reduce((best, each) => (each.high - each.low > best.high - best.low ? each : best));
  return most.high - most.low < 0.02 * most.high ? "Here all rules agree." : `Other rules say otherwise: for ${most.name} it is from ${usd(most.low)} to ${usd(most.high)} USD.`;
}
