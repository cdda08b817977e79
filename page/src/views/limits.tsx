import { Lines } from "../charts/lines";
import { Spans, type Span } from "../charts/spans";
import { Legend } from "../charts/stacked";
import type { BurstReplay } from "../document";
import { Chart, Fig, Named, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, percent, seconds, spaced } from "../words";

/** Ways to absorb a burst, each by itself: none adds to the one before it. */
const KINDS: [string, string][] = [
  ["queue", "the queue alone"],
  ["hot", "hot replicas"],
  ["warm", "warm replicas"],
  ["scale_up", "cold replicas"],
];

export function LimitsView() {
  const { plan } = useTold();
  return (
    <View id="limits" question="What is admitted, and what happens beyond it?">
      {plan.pools.map((pool) => (
        <PoolLimits key={pool.name} name={pool.name} shedFirst={pool.shed_first} />
      ))}
    </View>
  );
}

function PoolLimits({ name, shedFirst }: { name: string; shedFirst: string | null }) {
  const { plan } = useTold();
  const several = plan.pools.length > 1;
  const of = several ? name : "";
  const loads = overloads(Object.keys(plan.json.figures), of);
  const most = loads[loads.length - 1];
  return (
    <>
      {several && <h3>{name}</h3>}
      <Sentence>
        The gateway admits <Named name="limit.pool_rate_rps" pool={of} /> and queues{" "}
        <Named name="limit.replica_queue_requests" pool={of} /> per replica
        {shedFirst && `, and sheds ${shedFirst} first`}
        {most !== undefined && (
          <>
            ; at {brief(most)} times the planned load <Named name={`limit.gateway_success_at_${most}`} pool={of} /> of
            requests still succeed, and <Named name={`limit.engine_success_at_${most}`} pool={of} /> with the engine's flags alone
          </>
        )}
        .
      </Sentence>
      {loads.length ? (
        <Chart title="Requests that succeed, by load" caption="At the planned load and beyond it: with the gateway's limits, and with the engine's own flags alone.">
          <Spans
            label="Success by overload"
            format={percent}
            most={1}
            rows={loads.flatMap<Span>((load) =>
              ["gateway", "engine"].map((who, tint) => {
                const found = plan.figure(`limit.${who}_success_at_${load}`, of);
                const value = Number(found?.value ?? 0);
                return {
                  label: tint === 0 ? `${brief(load)} × planned` : "",
                  value,
                  shown: percent(value),
                  name: found?.name,
                  tint: tint === 0 ? 0 : 5,
                  first: tint === 0,
                };
              }),
            )}
          />
          <Legend entries={[{ name: "with the gateway's limits", tint: 0 }, { name: "with the engine's flags alone", tint: 5 }]} />
        </Chart>
      ) : (
        <Nothing>This plan has no overload results.</Nothing>
      )}
      <Bursts of={of} />
      <Replays replays={plan.series(name)?.bursts ?? []} of={of} />
      <LimitTables of={of} />
      <Notes stage="admission_limits" pool={of} />
    </>
  );
}

/** The overloads that were tried, from the names of their figures. */
function overloads(names: string[], of: string): number[] {
  const start = `${of ? `${of}.` : ""}limit.gateway_success_at_`;
  return names.filter((each) => each.startsWith(start)).map((each) => Number(each.slice(start.length))).filter(Number.isFinite).sort((a, b) => a - b);
}

function Bursts({ of }: { of: string }) {
  const { plan } = useTold();
  const start = `${of ? `${of}.` : ""}burst.queue_`;
  const lengths = Object.keys(plan.json.figures)
    .filter((each) => each.startsWith(start))
    .map((each) => Number(each.slice(start.length).replace("s_ratio", "")))
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  if (lengths.length < 2) return <Nothing>This plan has no burst budget.</Nothing>;
  const at = (kind: string) => lengths.map((each) => plan.number(`burst.${kind}_${each}s_ratio`, of) ?? null);
  return (
    <>
      <Chart title="Burst budget: how high a burst of each length may be" caption="How far above the planned load a burst may go, and for how long, without violating an SLO: four ways, each by itself. Hot and warm replicas are those that the policy keeps, cold ones as many as are needed.">
        <Lines
          x={lengths.map((_, place) => place)}
          series={KINDS.map(([kind, label], tint) => ({ label, values: at(kind), tint, points: true }))}
          rules={[{ at: 1, label: "the planned load", across: true }]}
          xLabel="length of the burst"
          yLabel="times the planned load"
          format={(value) => `${brief(value)} ×`}
          formatX={(value) => (Number.isInteger(value) ? seconds(lengths[value] ?? 0) : "")}
          label={`Burst budget: ${lengths.map((each) => `${brief(plan.number(`burst.queue_${each}s_ratio`, of) ?? 0)} times for ${seconds(each)}`).join(", ")}`}
        />
      </Chart>
      <Table
        caption="Burst budget, as a multiple of the planned load"
        rows={KINDS}
        columns={[
          { head: "absorbed by", cell: ([, label]) => label },
          ...lengths.map((each) => ({
            head: seconds(each),
            right: true,
            cell: ([kind]: [string, string]) => <Fig of={plan.figure(`burst.${kind}_${each}s_ratio`, of)} />,
          })),
        ]}
      />
    </>
  );
}

const GUARDED = "limits and retry budget";

/** One simulated burst: how requests ended, and how many waited, with and without limits. */
function Replays({ replays, of }: { replays: BurstReplay[]; of: string }) {
  const { plan } = useTold();
  const guarded = replays.find((each) => each.protection === GUARDED);
  const bare = replays.find((each) => each !== guarded);
  if (!guarded || !bare) return <Nothing>This plan has no replayed burst. Plan again with this version to have one.</Nothing>;
  const back = (each: BurstReplay, name: string) =>
    each.back_after_s === null ? (
      <>never comes back by itself, because clients ask again for late answers</>
    ) : each.back_after_s === 0 ? (
      <>is back at once</>
    ) : (
      <>
        is back after <Named name={name} pool={of} />
      </>
    );
  const ratio = guarded.burst_rps / guarded.planned_rps;
  return (
    <>
      <p class="lead">
        A burst of {brief(ratio)} times the planned load for {seconds(guarded.until_s - guarded.from_s)}: with the limits and a
        retry budget <Named name="replay.budgeted_success_fraction" pool={of} /> of those who come in it are served in time, and
        the pool {back(guarded, "replay.budgeted_back_s")}; without limits{" "}
        <Named name="replay.bare_success_fraction" pool={of} /> are, and it {back(bare, "replay.bare_back_s")}. Without limits it recovers from such a burst up to{" "}
        <Named name="retry.recovers_bare_rps" pool={of} />, with limits and budget up to{" "}
        <Named name="retry.recovers_budgeted_rps" pool={of} />; <Fig of={plan.figure("demand.planning_rate", of)} /> are planned.
      </p>
      <div class="pair">
        {[guarded, bare].map((each) => (
          <Burst key={each.protection} replay={each} />
        ))}
      </div>
      <Queue guarded={guarded} bare={bare} />
    </>
  );
}

/** Minutes from the beginning of the burst, in the middle of each step. */
const minutes = (of: BurstReplay) => of.offered_rps.map((_, at) => ((at + 0.5) * of.step_s - of.from_s) / 60);
const during = (of: BurstReplay) => ({ from: 0, until: (of.until_s - of.from_s) / 60, label: "burst" });

function Burst({ replay }: { replay: BurstReplay }) {
  const each = (values: number[]) => values.map((one) => one / replay.replicas);
  const isGuarded = replay.protection === GUARDED;
  return (
    <Chart
      title={isGuarded ? "The burst with limits and a retry budget, by outcome" : "The burst without limits, by outcome"}
      caption="Requests per replica, by first arrival and by outcome after the last attempt."
    >
      <Lines
        x={minutes(replay)}
        series={[
          { label: "offered", values: each(replay.offered_rps), tint: 7, width: 1.5, dash: [4, 4] },
          { label: "in time", values: each(replay.success_rps), tint: 2 },
          { label: "late or timed out", values: each(replay.late_rps), tint: 5 },
          { label: "refused", values: each(replay.refused_rps), tint: 1 },
        ]}
        shade={during(replay)}
        xLabel="minutes from the beginning of the burst"
        yLabel="req/s a replica"
        format={(value) => brief(value)}
        formatX={(value) => brief(value)}
        label={`A burst ${isGuarded ? "with limits and a retry budget" : "without limits"}: ${brief(Math.max(...each(replay.offered_rps)))} req/s a replica at its highest`}
      />
    </Chart>
  );
}

function Queue({ guarded, bare }: { guarded: BurstReplay; bare: BurstReplay }) {
  const each = (of: BurstReplay) => of.waiting_requests.map((one) => one / of.replicas);
  return (
    <Chart title="The queue of a replica in the same burst" caption="Most requests waiting at a replica in each step. A queue that does not drain after the burst is fed by retries.">
      <Lines
        x={minutes(guarded)}
        series={[
          { label: "with limits and a retry budget", values: each(guarded), tint: 0 },
          { label: "without limits", values: each(bare), tint: 5 },
        ]}
        shade={during(guarded)}
        xLabel="minutes from the beginning of the burst"
        yLabel="requests"
        format={(value) => brief(value)}
        formatX={(value) => brief(value)}
        height={220}
        label={`Longest queue of a replica: ${brief(Math.max(...each(guarded)))} requests with limits, ${brief(Math.max(...each(bare)))} without`}
      />
    </Chart>
  );
}

const OWN = ["rate_rps", "tokens_per_s", "first_token_s", "queue_age_s", "latest_start_s", "context_tokens"];

function LimitTables({ of }: { of: string }) {
  const { plan } = useTold();
  const pooled = (plan.stage("admission_limits", of)?.figures ?? [])
    .map((each) => plan.known(each))
    .filter((each) => each !== undefined)
    .filter((each) => /(^|\.)limit\.[a-z_]+$/.test(each.name) && !each.name.includes("success_at"));
  const classes = plan.json.classes.filter((each) => plan.figure(`limit.${each.name}.rate_rps`, of));
  return (
    <>
      {classes.length > 0 && (
        <Table
          caption="Limits by class"
          rows={classes}
          columns={[
            { head: "class", cell: (row) => row.name },
            ...OWN.map((each) => ({
              head: spaced(each.replace(/_(rps|s|tokens)$/, "").replace("tokens_per", "tokens a second")),
              right: true,
              cell: (row: { name: string }) => <Fig of={plan.figure(`limit.${row.name}.${each}`, of)} />,
            })),
          ]}
        />
      )}
      <Table
        caption="Limits of the pool"
        rows={pooled}
        columns={[
          { head: "limit", cell: (row) => spaced(row.name.replace(/^.*limit\./, "").replace(/_(rps|s|requests|tokens)$/, "")) },
          { head: "value", right: true, cell: (row) => <Fig of={row} /> },
          { head: "why", wide: true, cell: (row) => row.formula ?? "" },
        ]}
      />
    </>
  );
}
