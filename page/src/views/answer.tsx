import { Spans } from "../charts/spans";
import { Legend } from "../charts/stacked";
import { Waterfall, type Fall } from "../charts/waterfall";
import type { PoolAnswer, Quantity, Step } from "../document";
import { Chance, Chart, Fig, Nothing, Sentence, useTold, View } from "../figure";
import { brief, counted, show, usd } from "../words";

const worth = (of: Quantity | null | undefined) => (of && typeof of.value === "number" ? of.value : 0);

export function AnswerView() {
  const { plan } = useTold();
  const { summary } = plan;
  return (
    <View id="answer" question="What do we buy, and what does it cost?">
      <Sentence>
        {summary.pools.map((pool, at) => (
          <span key={pool.name}>
            {at > 0 && "; "}
            <Fig of={pool.machines.nodes} text={counted(worth(pool.machines.nodes), "machine")} /> {pool.machines.shape} with{" "}
            <Fig of={pool.machines.devices} text={brief(worth(pool.machines.devices))} /> <span class="nowrap">{pool.machines.device}</span> run{" "}
            <Fig of={pool.machines.replicas} text={counted(worth(pool.machines.replicas), "replica")} /> of {pool.model}
            {summary.pools.length > 1 && ` (${pool.name})`}
          </span>
        ))}
        {summary.total_usd ? (
          <>
            {" "}
            for <Fig of={summary.total_usd} /> a month
          </>
        ) : (
          ", and nothing of it is priced"
        )}
        , until <time class="nowrap">{summary.until}</time>.
      </Sentence>
      <Reasons />
      <Tiles />
      <TrafficBridge steps={summary.traffic} />
      {summary.pools.map((pool) => (
        <MoneyBridge key={pool.name} pool={pool} />
      ))}
      <CostRange />
    </View>
  );
}

function Reasons() {
  const { summary } = useTold().plan;
  const said = [...summary.reasons, ...summary.warnings, ...summary.surprises.map((each) => each.sentence)];
  return (
    <div class={`verdict ${summary.verdict === "BUY" ? "good" : "wait"}`}>
      <strong>{summary.verdict}</strong>
      {said.length > 0 && (
        <ul>
          {said.map((each) => (
            <li key={each}>{each}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Tiles() {
  const { summary } = useTold().plan;
  const next = summary.next_step;
  return (
    <dl class="tiles">
      {summary.per_success && (
        <div>
          <dt>Cost per success</dt>
          <dd>
            <Fig of={summary.per_success} text={`${brief(worth(summary.per_success))} USD`} />
          </dd>
        </div>
      )}
      {summary.risks.map((each) => (
        <div key={each.pool}>
          <dt>Risk of a shortfall{summary.risks.length > 1 ? `, ${each.pool}` : ""}</dt>
          <dd>
            <Chance of={each.shortfall} /> <small>of busiest hours; target <Chance of={each.chosen} /></small>
          </dd>
        </div>
      ))}
      {next && (
        <div class="wide">
          <dt>What to do next</dt>
          <dd>
            <span class="next">{next.what}</span>
            <small>
              {next.cost_usd && (
                <>
                  costs <Fig of={next.cost_usd} text={`${brief(worth(next.cost_usd))} USD`} />
                </>
              )}
              {next.saves_usd && (
                <>
                  , may save <Fig of={next.saves_usd} /> a month
                </>
              )}
              {next.saves_replicas && (
                <>
                  : <Fig of={next.saves_replicas} />
                </>
              )}
            </small>
          </dd>
        </div>
      )}
      {summary.orders.map((each) => (
        <div key={`${each.device}${each.region}`}>
          <dt>{each.device} arrive on</dt>
          <dd>
            <time class="nowrap">{each.there_on}</time>
            <small>
              if ordered today: <Fig of={each.devices} />
              {each.region && ` in ${each.region}`}
              {each.is_late && ", after the plan ends"}
            </small>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function TrafficBridge({ steps }: { steps: Step[] }) {
  if (!steps.length) return <Nothing>The plan lists no traffic.</Nothing>;
  const last = steps[steps.length - 1]!;
  // A difference has the digits of what it leads to, and no more.
  const lastDigit = 10 ** (Math.floor(Math.log10(worth(last.amount) || 1)) - 2);
  const added = (at: number) => Number((Math.round((worth(steps[at]!.amount) - worth(steps[at - 1]!.amount)) / lastDigit) * lastDigit).toPrecision(6));
  const rows: Fall[] = steps.map((each, at) => ({
    label: each.name,
    value: worth(each.amount) - (at === 0 ? 0 : worth(steps[at - 1]!.amount)),
    shown: at === 0 ? show(each.amount.value, each.amount.unit) : `${added(at) < 0 ? "" : "+"}${show(added(at), each.amount.unit)}`,
    remark: at > 0 ? `${brief(worth(each.amount) / worth(steps[at - 1]!.amount))} × ${each.remark}` : each.remark,
    name: each.amount.name,
  }));
  rows.push({ ...sum("planned load", last.amount) });
  return (
    <Chart title="From today's traffic to the planned load" caption="Each bar begins where the one before it ended.">
      <Waterfall
        rows={rows}
        label={`Bridge of traffic: from ${rows[0]!.shown} today to ${show(last.amount.value, last.amount.unit)} planned`}
      />
    </Chart>
  );
}

const RESERVES = new Set(["failure", "rollout", "maintenance", "warm", "region"]);
const UNSURE = new Set(["untested step times", "length uncertainty", "demand uncertainty"]);
const TONES = [
  { name: "the load", tint: 0, tone: "plain" },
  { name: "what is not known well enough", tint: 1, tone: "evidence" },
  { name: "what must not fail", tint: 2, tone: "reserve" },
  { name: "the rest", tint: 7, tone: "rest" },
];

function MoneyBridge({ pool }: { pool: PoolAnswer }) {
  const { plan } = useTold();
  const several = plan.pools.length > 1;
  const priced = pool.usd !== null;
  const of = several ? ` of ${pool.name}` : "";
  const steps = [...pool.replicas, ...(priced ? [pool.rounding] : [])].filter((each) => worth(each.amount) !== 0);
  const rows: Fall[] = steps.map((each) => ({
    label: each.name,
    value: priced ? worth(each.usd) : worth(each.amount),
    shown: priced ? `${usd(worth(each.usd))} USD` : show(each.amount.value, each.amount.unit),
    remark: [priced && show(each.amount.value, each.amount.unit), each.remark].filter(Boolean).join(", "),
    name: priced ? each.usd?.name : each.amount.name,
    tone: RESERVES.has(each.name) ? "reserve" : UNSURE.has(each.name) ? "evidence" : each.name === "nominal" ? "plain" : "rest",
  }));
  if (priced && !several && plan.summary.total_usd) {
    const rest = worth(plan.summary.total_usd) - worth(pool.usd);
    const names = plan.json.series?.bill.map((each) => each.name) ?? [];
    const devices = new Set(["compute_usage", "compute_reservation", "idle_hours", "idle_reserve", "stranded_devices", "failed_work"]);
    const others = [...new Set(names.filter((each) => !devices.has(each)))].map((each) => each.replaceAll("_", " "));
    const unpriced = new Set(plan.summary.unpriced);
    if (rest > 0.005)
      rows.push({
        label: "all other lines",
        value: rest,
        shown: `${usd(rest)} USD`,
        remark: others.filter((each) => !unpriced.has(each)).join(", "),
        tone: "rest",
      });
    rows.push(sum("a month", plan.summary.total_usd));
  } else if (priced && pool.usd) rows.push(sum("devices a month", pool.usd));
  else rows.push({ ...sum("replicas", pool.machines.replicas), shown: show(pool.machines.replicas.value, "replicas") });
  return (
    <Chart
      title={priced ? (several ? `From the nominal fleet${of} to its devices, USD a month` : "From the nominal fleet to the month's bill") : `From the nominal fleet${of} to all its replicas`}
      caption="Every reserve is a line of its own."
    >
      <Waterfall rows={rows} label={`Bridge to ${priced ? "money" : "replicas"}${of}: ${rows.map((each) => `${each.label} ${each.shown}`).join(", ")}`} />
      <Legend entries={TONES.filter(({ tone }) => rows.some((each) => each.tone === tone))} />
    </Chart>
  );
}

const sum = (label: string, of: Quantity): Fall => ({
  label,
  value: worth(of),
  shown: of.unit === "USD" ? `${usd(worth(of))} USD` : show(of.value, of.unit),
  name: of.name,
  isSum: true,
});

function CostRange() {
  const { plan } = useTold();
  const rows = plan.pools.flatMap((pool) => {
    const of = (which: string) => plan.figure(`risk.usd_${which}`, plan.pools.length > 1 ? pool.name : "");
    const [low, middle, high] = [of("p10"), of("p50"), of("p90")];
    if (!low || !middle || !high) return [];
    return [
      {
        label: plan.pools.length > 1 ? pool.name : "what is needed",
        value: worth(middle),
        low: worth(low),
        high: worth(high),
        shown: `${usd(worth(low))} to ${usd(worth(high))} USD`,
        name: middle.name,
      },
    ];
  });
  if (!rows.length) return <Nothing>No cost range: the risk study was skipped, or nothing is priced.</Nothing>;
  const total = plan.summary.total_usd;
  return (
    <Chart
      title="Cost of the fleet that turns out to be needed, USD a month"
      caption="What the busiest hour needs: the line from p10 to p90 of all draws, the dot at p50. This plan buys more, to cover the risk, reserves included."
    >
      <Spans
        rows={rows}
        kind="dot"
        label="Range of the month's cost"
        format={(value) => usd(value)}
        rules={total && rows.length === 1 ? [{ at: worth(total), label: `this plan, ${usd(worth(total))} USD` }] : []}
      />
    </Chart>
  );
}
