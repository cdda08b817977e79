import { Density } from "../charts/density";
import { Heat, hourName } from "../charts/heat";
import { Lines } from "../charts/lines";
import { Stacked } from "../charts/stacked";
import type { PoolSeries } from "../document";
import { Chart, Fig, Named, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, part, percent, show, usd } from "../words";

const RATES: [string, string][] = [
  ["mean_rate", "mean"],
  ["planning_rate", "busiest hour"],
  ["peak_minute", "busiest minute"],
  ["minute_dispersion", "dispersion by minute"],
  ["cached_fraction", "cached"],
];

const LENGTHS: [string, string][] = [
  ["prompt_p50", "prompt p50"],
  ["prompt_p95", "p95"],
  ["prompt_p99", "p99"],
  ["output_p50", "output p50"],
  ["output_p95", "p95"],
  ["output_p99", "p99"],
];

export function DemandView() {
  const { plan } = useTold();
  const several = plan.pools.length > 1;
  const workload = plan.stage("workload");
  return (
    <View id="demand" question="Which traffic is planned for?">
      {plan.pools.map((pool) => (
        <PoolDemand key={pool.name} name={pool.name} several={several} />
      ))}
      <Classes caption="Rates by class" cells={RATES} />
      <Classes caption="Lengths by class, in tokens" cells={LENGTHS} />
      {workload?.missing && (
        <Nothing>
          No history and no forecast to draw. {workload.missing.instead} {workload.missing.fix}
        </Nothing>
      )}
      <Notes stage="demand" />
    </View>
  );
}

function Classes({ caption, cells }: { caption: string; cells: [string, string][] }) {
  const { plan } = useTold();
  return (
    <Table
      caption={caption}
      rows={plan.json.classes}
      columns={[
        { head: "class", cell: (row) => row.name },
        ...cells.map(([name, head]) => ({
          head,
          right: true,
          cell: (row: { name: string }) => {
            const found = plan.known(`demand.${row.name}.${name}`);
            return <Fig of={found} text={found?.unit === "tokens" ? brief(Math.round(Number(found.value))) : undefined} />;
          },
        })),
      ]}
    />
  );
}

function PoolDemand({ name, several }: { name: string; several: boolean }) {
  const { plan } = useTold();
  const series = plan.series(name);
  const hours = series ? total(series) : [];
  const at = hours.length ? hours.indexOf(Math.max(...hours)) : -1;
  const classes = series?.week.map((each) => each.name) ?? [];
  const tokens = classes.map((each) => plan.number(`demand.${each}.token_rate`) ?? 0);
  const all = tokens.reduce((sum, each) => sum + each, 0);
  return (
    <>
      {several && <h3>{name}</h3>}
      <Sentence>
        The plan is made for a busiest hour of <Named name="demand.planning_rate" pool={several ? name : ""} />
        {at >= 0 && <>; in an ordinary week it falls on {hourName(at)}</>}
        {all > 0 && classes.length > 1 && (
          <>
            , and {classes[tokens.indexOf(Math.max(...tokens))]} brings {part(Math.max(...tokens) / all)} of its tokens
          </>
        )}
        .
      </Sentence>
      {series && at >= 0 ? (
        <Chart
          title="Requests per second by hour of the week"
          caption="All classes together, with the busiest hour of each class at its planning rate; the frame is the busiest hour."
        >
          <Heat hours={hours} unit="req/s" label={`Week by hour: busiest ${hourName(at)} with ${brief(hours[at]!)} req/s`} />
        </Chart>
      ) : (
        <Nothing>This plan has no hours of the week. Plan again with this version to have them.</Nothing>
      )}
      {series?.forecasts.map((each) => <Fan key={each.name} of={each} />)}
      {series && <Lengths series={series} />}
      {series && <Reuse series={series} of={several ? name : ""} />}
      {classes.length > 1 && (
        <Chart title="Requests and tokens by class" caption="In the busiest hour of each class: the class with most requests need not be the one with most work.">
          <Stacked
            label="Shares of the classes in requests and tokens"
            whole={1}
            bars={[
              { label: "requests", unit: "req/s", figure: "planning_rate" },
              { label: "tokens", unit: "tokens/s", figure: "token_rate" },
            ].map((bar) => {
              const found = classes.map((each) => plan.known(`demand.${each}.${bar.figure}`));
              const sum = found.reduce((so, each) => so + (typeof each?.value === "number" ? each.value : 0), 0) || 1;
              return {
                label: bar.label,
                parts: classes.map((each, tint) => ({
                  label: each,
                  value: Number(found[tint]?.value ?? 0) / sum,
                  shown: found[tint] ? show(found[tint]!.value, found[tint]!.unit) : "",
                  name: found[tint]?.name,
                  tint,
                })),
              };
            })}
          />
        </Chart>
      )}
    </>
  );
}

/** Prompt against output, class by class on one scale: an average request is rarely one that comes. */
function Lengths({ series }: { series: PoolSeries }) {
  const { plan } = useTold();
  const grids = (series.lengths ?? []).filter((each) => each.cells.length > 0);
  if (!grids.length) return null;
  const all = grids.flatMap((each) => each.cells);
  const ends = (place: 0 | 1): [number, number] => [Math.min(...all.map((each) => each[place])), Math.max(...all.map((each) => each[place]))];
  const median = (name: string): [number, number] | undefined => {
    const [prompt, output] = [plan.number(`demand.${name}.prompt_p50`), plan.number(`demand.${name}.output_p50`)];
    return prompt && output ? [prompt, output] : undefined;
  };
  return (
    <div class="pair alike">
      {grids.map((each) => (
        <Chart
          key={each.name}
          title={`Prompt against output length, ${each.name}`}
          caption={`Requests by both lengths: a stronger colour is more. ${together(each.correlation_ratio)}`}
        >
          <Density
            cells={each.cells}
            binsPerOctave={each.bins_per_octave}
            range={[ends(0), ends(1)]}
            middle={median(each.name)}
            name={plan.known(`demand.${each.name}.request_tokens`)?.name}
            label={`Prompt against output length of ${each.name}`}
            xLabel="prompt tokens"
            yLabel="output tokens"
          />
        </Chart>
      ))}
    </div>
  );
}

const together = (ratio: number) => {
  const how = Math.abs(ratio) <= 0.2 ? "hardly go together" : ratio > 0 ? "tend to go together" : "tend to go apart";
  return `Long prompts and long answers ${how} (rank correlation ${brief(Number(ratio.toFixed(2)))}).`;
};

/** The cached share by the size of the cache, beside the caches that the pool has. */
function Reuse({ series, of }: { series: PoolSeries; of: string }) {
  const { plan } = useTold();
  const curves = series.reuse ?? [];
  if (!curves.length) {
    const stated = series.week.map((each) => each.name).filter((each) => plan.number(`demand.${each}.cached_fraction`));
    if (!stated.length) return null;
    return <Nothing>How the cached share depends on cache size is unknown: it is stated, or logged only as a share. Give a trace with block hashes.</Nothing>;
  }
  const x = [...new Set(curves.flatMap((each) => each.cache_tokens))].sort((a, b) => a - b);
  const held = plan.number("memory.kv_tokens", of);
  const replicas = plan.number("fleet.replicas", of) ?? 1;
  const rules = held === undefined ? [] : [{ at: held, label: "one replica" }, ...(replicas > 1 ? [{ at: held * replicas, label: `${replicas} replicas` }] : [])];
  const least = Math.min(x[0]!, ...rules.map((each) => each.at));
  const most = Math.max(x[x.length - 1]!, ...rules.map((each) => each.at));
  return (
    <Chart
      title="Prompt tokens found in the cache, by its size"
      caption={`Share of prompt tokens that a shared cache of this size would hold; dashed: the KV cache of ${replicas > 1 ? "one replica and of all together, which prefix-aware routing approaches" : "the replica"}.`}
    >
      <Lines
        x={x}
        series={curves.map((each) => ({ label: each.name, values: x.map((at) => along(each.cache_tokens, each.hit_fractions, at)), tint: series.week.findIndex((one) => one.name === each.name) }))}
        rules={rules}
        logX
        xRange={[least / 1.1, most * 1.6]}
        xLabel="tokens of cache"
        yLabel="part of prompt tokens"
        format={percent}
        formatX={(value) => usd(value)}
        label={`Cached share by cache size: ${curves.map((each) => `${each.name} up to ${percent(each.hit_fractions[each.hit_fractions.length - 1]!)}`).join(", ")}`}
      />
    </Chart>
  );
}

/** The value of a curve at a place, straight between its points in the logarithm; level beyond its ends. */
function along(xs: number[], ys: number[], at: number): number {
  const next = xs.findIndex((each) => each >= at);
  if (next === 0) return ys[0]!;
  if (next < 0) return ys[ys.length - 1]!;
  const share = Math.log(at / xs[next - 1]!) / Math.log(xs[next]! / xs[next - 1]!);
  return ys[next - 1]! + share * (ys[next]! - ys[next - 1]!);
}

const total = (series: PoolSeries) =>
  Array.from({ length: 168 }, (_, at) => series.week.reduce((sum, each) => sum + (each.hours_rps[at] ?? 0), 0));

function Fan({ of }: { of: PoolSeries["forecasts"][number] }) {
  const past = of.logged.length;
  const ratio = of.scale_ratio ?? 1;
  const day = (at: number) => ((at - past) * of.step_s) / 86400;
  const x = Array.from({ length: past + of.middle.length }, (_, at) => day(at));
  const before = Array<null>(past).fill(null);
  const after = Array<null>(of.middle.length).fill(null);
  return (
    <Chart
      title={`Requests a second, logged and forecast: ${of.name}`}
      caption={`The forecast is its median, with the band between 10 and 90 %.${ratio === 1 ? "" : ` The log is drawn ${brief(ratio)} times as high as it was, at the rate of the plan.`}`}
    >
      <Lines
        x={x}
        series={[
          { label: "logged", values: [...of.logged.map((each) => each && each * ratio), ...after], tint: 7, width: 1 },
          { label: "forecast", values: [...before, ...of.middle], tint: 0 },
        ]}
        bands={[{ low: [...before, ...of.low], high: [...before, ...of.high], tint: 0 }]}
        rules={[{ at: 0, label: "end of the log" }]}
        xLabel="days from the end of the log"
        yLabel={of.unit}
        format={(value) => brief(value)}
        formatX={(value) => brief(value)}
        label={`Forecast of ${of.name}`}
      />
    </Chart>
  );
}
