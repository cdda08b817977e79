import { Lines } from "../charts/lines";
import { Stacked } from "../charts/stacked";
import { Chart, Fig, Named, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, seconds } from "../words";

const PHASES = ["node", "image", "container", "boot", "weights", "compile", "graphs", "warmup", "probe", "discovery"];

const RULE: Record<string, string> = {
  threshold_requests: "scales up above, per replica",
  least_replicas: "fewest replicas",
  most_replicas: "most replicas",
  down_window_s: "waits before scaling down",
  window_s: "averages requests in flight over",
  node_held_s: "keeps an empty node for",
  floor_fraction: "schedule holds, of the expected need",
  schedule: "schedule",
};

const DID: Record<string, string> = {
  attained_fraction: "requests within the tightest SLO",
  scale_up_violated_requests: "SLO violated while replicas started",
  queue_requests: "longest queue",
  decision_lag_s: "time until it asked for enough",
  ready_s: "time to ready of its starts",
  overshoot_fraction: "ready beyond the need",
  undershoot_fraction: "ready below the need",
  turns_per_hour: "reversals (thrash)",
  warm_hours: "warm capacity held",
  mean_replicas: "mean replicas",
  saving_fraction: "saved against a fixed fleet",
  paid_replicas: "replicas paid for, mean of the week",
  idle_fraction: "idle part of them",
};

export function ScalingView() {
  const { plan } = useTold();
  return (
    <View id="scaling" question="When does the fleet scale, and how long does new capacity take?">
      {plan.pools.map((pool) => (
        <PoolScaling key={pool.name} name={pool.name} />
      ))}
    </View>
  );
}

function PoolScaling({ name }: { name: string }) {
  const { plan } = useTold();
  const several = plan.pools.length > 1;
  const of = several ? name : "";
  const found = plan.series(name)?.scaling;
  return (
    <>
      {several && <h3>{name}</h3>}
      <Sentence>
        A cold replica is ready after <Named name="ready.cold_p50_s" pool={of} />, one in ten takes longer than{" "}
        <Named name="ready.cold_p90_s" pool={of} />; so the rule scales up at{" "}
        <Named name="scaling.threshold_requests" pool={of} /> in flight per replica, and{" "}
        {plan.number("scaling.saving_fraction", of) === 0 ? (
          "saves nothing against a fixed fleet."
        ) : (
          <>
            saves <Named name="scaling.saving_fraction" pool={of} /> of the replica-hours of a fixed fleet.
          </>
        )}
      </Sentence>
      {found && found.replicas.length > 1 ? (
        <Day name={name} />
      ) : (
        <Nothing>This plan has no simulated hours of the rule. Plan again with this version to have them.</Nothing>
      )}
      <Ready of={of} />
      <Figures caption="The rule" of={of} names={RULE} />
      <Figures caption="What the rule did on the simulated day" of={of} names={DID} />
      <Notes stage="scaling" pool={of} />
    </>
  );
}

/** These figures of the stage by the names that people have for them, in this order. */
function Figures({ caption, of, names }: { caption: string; of: string; names: Record<string, string> }) {
  const { plan } = useTold();
  const rows = Object.entries(names).flatMap(([name, label]) => {
    const found = plan.figure(`scaling.${name}`, of);
    return found ? [{ label, found }] : [];
  });
  if (!rows.length) return null;
  return (
    <Table
      caption={caption}
      rows={rows}
      columns={[
        { head: "figure", cell: (row) => row.label },
        { head: "value", right: true, cell: (row) => <Fig of={row.found} /> },
        { head: "how it was found", wide: true, cell: (row) => row.found.formula ?? "" },
      ]}
    />
  );
}

function Day({ name }: { name: string }) {
  const { plan } = useTold();
  const day = plan.series(name)!.scaling;
  const hours = day.replicas.map((_, at) => day.start_s / 3600 + at);
  const needed = day.demand_rps.length === day.replicas.length ? day.demand_rps.map((each) => each / day.each_rps) : null;
  // A step chart holds each value until the next hour, so that the last hour needs an end.
  const x = [...hours, hours[hours.length - 1]! + 1];
  const held = (values: number[]) => [...values, values[values.length - 1]!];
  return (
    <Chart
      title={`Replicas on ${day.day}: under the rule, and of a fixed fleet`}
      caption={`${day.day} of the planned week, ${hours.length === 24 ? "hour by hour" : `the ${hours.length} hours of its steepest rise`}: replicas that hold devices under the rule, beside the fleet that never scales${needed ? " and what the mean rate of the hour needs" : ""}.`}
    >
      <Lines
        x={x}
        series={[
          { label: "under the rule", values: held(day.replicas), tint: 0, step: true },
          ...(needed ? [{ label: "needed for the rate", values: held(needed), tint: 1, step: true, dash: [6, 3] }] : []),
          { label: "fixed fleet", values: x.map(() => day.fixed_replicas), tint: 7, dash: [3, 3] },
        ]}
        xLabel={`hour of ${day.day}`}
        yLabel="replicas"
        format={(value) => brief(value)}
        formatX={(value) => (Number.isInteger(value) ? `${value}:00` : "")}
        label={`Replicas by hour on ${day.day}: from ${brief(Math.min(...day.replicas))} to ${brief(Math.max(...day.replicas))}; the fixed fleet has ${day.fixed_replicas}`}
      />
    </Chart>
  );
}

const together = (took: number[], names: string[]) => {
  const sum = took.reduce((so, each) => so + each, 0);
  return { label: names.join(", "), value: sum, shown: seconds(sum), tint: 7 };
};

function Ready({ of }: { of: string }) {
  const { plan } = useTold();
  const known = PHASES.filter((each) => plan.figure(`ready.${each}_p50_s`, of));
  // Eight colours are told apart: the shortest phases are one.
  const slow = (each: string) => plan.number(`ready.${each}_p90_s`, of) ?? 0;
  const long = [...known].sort((a, b) => slow(b) - slow(a)).slice(0, 7);
  const phases = known.filter((each) => long.includes(each));
  const short = known.filter((each) => !long.includes(each));
  if (!phases.length) return <Nothing>This plan has no phases of a start.</Nothing>;
  return (
    <Chart title="How long a cold start takes, by phase" caption="Each phase at p50 and at p90: phases are not all slow in the same start, so the p90 bars add up to more than a p90 start, and those at p50 to less than a median one.">
      <Stacked
        label={`Phases of a cold start: ${phases.map((each) => `${each} ${seconds(plan.number(`ready.${each}_p50_s`, of) ?? 0)}`).join(", ")}`}
        bars={["p50", "p90"].map((which) => ({
          label: which === "p50" ? "median" : "1 in 10",
          remark: seconds(known.reduce((sum, each) => sum + (plan.number(`ready.${each}_${which}_s`, of) ?? 0), 0)),
          parts: [
            ...phases.map((each, tint) => {
              const found = plan.figure(`ready.${each}_${which}_s`, of);
              const took = Number(found?.value ?? 0);
              return { label: each, value: took, shown: seconds(took), name: found?.name, tint };
            }),
            ...(short.length ? [together(short.map((each) => plan.number(`ready.${each}_${which}_s`, of) ?? 0), short)] : []),
          ],
        }))}
      />
    </Chart>
  );
}
