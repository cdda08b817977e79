import { Heat, hourName } from "../charts/heat";
import { Lines } from "../charts/lines";
import { Stacked } from "../charts/stacked";
import type { PoolSeries } from "../document";
import { Chart, Fig, Named, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, percent, show } from "../words";

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
        The busiest hour that is planned for asks <Named name="demand.planning_rate" pool={several ? name : ""} />
        {at >= 0 && <>; in an ordinary week it falls on {hourName(at)}</>}
        {all > 0 && classes.length > 1 && (
          <>
            , and {classes[tokens.indexOf(Math.max(...tokens))]} brings {percent(Math.max(...tokens) / all)} of its tokens
          </>
        )}
        .
      </Sentence>
      {series && at >= 0 ? (
        <Chart caption="Requests a second by hour of the week, all classes together, with the busiest hour of each class at its planning rate.">
          <Heat hours={hours} unit="req/s" label={`Week by hour: busiest ${hourName(at)} with ${brief(hours[at]!)} req/s`} />
        </Chart>
      ) : (
        <Nothing>This plan holds no hours of the week. Plan again with this version to have them.</Nothing>
      )}
      {series?.forecasts.map((each) => <Fan key={each.name} of={each} />)}
      {classes.length > 1 && (
        <Chart caption="Who asks: requests and tokens in the busiest hour of each class.">
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

const total = (series: PoolSeries) =>
  Array.from({ length: 168 }, (_, at) => series.week.reduce((sum, each) => sum + (each.hours_rps[at] ?? 0), 0));

function Fan({ of }: { of: PoolSeries["forecasts"][number] }) {
  const past = of.logged.length;
  const day = (at: number) => ((at - past) * of.step_s) / 86400;
  const x = Array.from({ length: past + of.middle.length }, (_, at) => day(at));
  const before = Array<null>(past).fill(null);
  const after = Array<null>(of.middle.length).fill(null);
  return (
    <Chart caption={`What was logged of ${of.name}, and its forecast: the median, and the band between 10 and 90 %.`}>
      <Lines
        x={x}
        series={[
          { label: "logged", values: [...of.logged, ...after], tint: 7, width: 1 },
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
