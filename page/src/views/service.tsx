import { Lines, type Band, type Series } from "../charts/lines";
import { Spans } from "../charts/spans";
import { Legend } from "../charts/stacked";
import type { LoadPoint, TestPoint } from "../document";
import { Chart, Named, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, latency, percent, plainSeconds, seconds } from "../words";

export function ServiceView() {
  const { plan } = useTold();
  return (
    <View id="service" question="How much load can one replica take?">
      {plan.pools.map((pool) => (
        <PoolService key={pool.name} name={pool.name} />
      ))}
    </View>
  );
}

function PoolService({ name }: { name: string }) {
  const { plan } = useTold();
  const several = plan.pools.length > 1;
  const of = several ? name : "";
  const points = plan.series(name)?.curve ?? [];
  const tests = plan.series(name)?.tests ?? [];
  const stable = points.filter((each) => each.is_sustained);
  const lowest = points.find((each) => !each.is_sustained)?.offered_rps;
  const evidence = plan.number("point.margin_evidence_fraction", of);
  const [rate, replicas] = [plan.number("demand.planning_rate", of), plan.number("fleet.replicas", of)];
  return (
    <>
      {several && <h3>{name}</h3>}
      <Sentence>
        Alone, a replica is run at <Named name="point.operating_rps" pool={of} />: with nominal step times every SLO is met up to{" "}
        <Named name="point.highest_rps" pool={of} />
        {evidence !== undefined && evidence > 0 && (
          <>
            , less <Named name="point.margin_evidence_fraction" pool={of} /> because they are uncertain
          </>
        )}
        .{" "}
        {replicas === 1 ? (
          <>
            One replica carries the planned load of <Named name="demand.planning_rate" pool={of} />.
          </>
        ) : (
          <>
            In the pool bursts spread over all replicas: <Named name="fleet.replicas" pool={of} />{" "}
            {rate !== undefined && replicas ? `carry ${brief(rate / replicas)} req/s each` : "carry the planned load"}, simulated
            together behind a router.
          </>
        )}
      </Sentence>
      {stable.length < 2 ? (
        <Nothing>This plan has no points of the service curve. Plan again with this version to have them.</Nothing>
      ) : (
        <>
          <div class="pair">
            {metrics(plan.json.classes, points).map((metric) => (
              <LatencyChart key={metric} metric={metric} points={stable} tests={tests} of={of} unstable={lowest} />
            ))}
            <GoodputChart points={stable} of={of} unstable={lowest} />
          </div>
          <Residuals tests={tests} />
          <CurveTable points={points} />
        </>
      )}
      <Notes stage="service_curve" pool={of} />
      <Notes stage="operating_point" pool={of} />
    </>
  );
}

/** The latencies that any class of this pool has an SLO of, each once. */
const metrics = (classes: { name: string; slos: { name: string }[] }[], points: LoadPoint[]) => [
  ...new Set(
    classes.filter((each) => points.some((point) => point.latencies[each.name])).flatMap((each) => each.slos.map((slo) => slo.name)),
  ),
];

function useMarks(of: string) {
  const { plan } = useTold();
  const found: { at: number; label: string }[] = [];
  const operating = plan.number("point.operating_rps", of);
  const knee = plan.number("curve.knee_rps", of);
  if (operating !== undefined) found.push({ at: operating, label: "operating point" });
  if (knee !== undefined) found.push({ at: knee, label: "knee" });
  return found;
}

function LatencyChart({ metric, points, tests, of, unstable }: { metric: string; points: LoadPoint[]; tests: TestPoint[]; of: string; unstable?: number }) {
  const { plan } = useTold();
  const marks = useMarks(of);
  const classes = plan.json.classes.map((each) => each.name);
  const drawn = classes.filter((each) => points.some((point) => point.latencies[each]?.[metric]));
  if (!drawn.length) return <Nothing>The plan holds no {latency(metric)} by load.</Nothing>;
  const limits = plan.json.classes.flatMap((each, tint) =>
    each.slos.filter((slo) => slo.name === metric && drawn.includes(each.name)).map((slo) => ({ name: each.name, at: slo.limit_s, tint })),
  );
  const pick = (name: string, part: "value" | "low" | "high") => points.map((each) => each.latencies[name]?.[metric]?.[part] ?? null);
  const dots = drawn.flatMap((name) =>
    tests.flatMap((each) => {
      const found = each.slos_s[`${name} ${metric}`];
      return found === undefined || each.offered_rps === null ? [] : [{ x: each.offered_rps, y: found, tint: classes.indexOf(name) }];
    }),
  );
  const right = Math.max(unstable ?? 0, ...points.map((each) => each.offered_rps));
  const same = new Set(limits.map((each) => each.at)).size === 1 && limits.length > 1;
  return (
    <Chart
      title={`${latency(metric)} by load of one replica`}
      caption={`Simulated with the conservative step times that the fleet is sized with, and 95 % intervals. Dashed across: the SLO; shaded: loads that a replica does not sustain.${dots.length ? " Rings: load tests of one replica, which have lengths and arrivals of their own." : ""}`}
    >
      <Lines
        x={points.map((each) => each.offered_rps)}
        series={drawn.map<Series>((name) => ({ label: name, values: pick(name, "value"), tint: classes.indexOf(name), points: true }))}
        bands={drawn.map<Band>((name) => ({ low: pick(name, "low"), high: pick(name, "high"), tint: classes.indexOf(name) }))}
        rules={[
          ...marks,
          ...(same ? limits.slice(0, 1) : limits).map((each) => ({
            at: each.at,
            label: `SLO ${same || drawn.length === 1 ? "" : `${each.name} `}${seconds(each.at)}`,
            tint: same ? undefined : each.tint,
            across: true,
          })),
        ]}
        dots={dots.filter((each) => each.x <= right * 1.08)}
        dotLabel="load test"
        shade={unstable === undefined ? undefined : { from: unstable, label: "falls behind" }}
        xRange={[0, right * 1.08]}
        xLabel="req/s offered to one replica"
        yLabel={latency(metric)}
        format={plainSeconds}
        formatX={(value) => brief(value)}
        log
        label={`${latency(metric)} of ${drawn.join(", ")} by load of one replica; ${limits.map((each) => `SLO of ${each.name} ${seconds(each.at)}`).join(", ")}`}
      />
    </Chart>
  );
}

function GoodputChart({ points, of, unstable }: { points: LoadPoint[]; of: string; unstable?: number }) {
  const marks = useMarks(of);
  const x = points.map((each) => each.offered_rps);
  const best = Math.max(...points.map((each) => each.goodput?.value ?? 0));
  return (
    <Chart title="Goodput by load of one replica" caption="Requests per second that succeed within every SLO, against offered load. Beyond the peak, more load yields less.">
      <Lines
        x={x}
        series={[
          { label: "offered", values: x, tint: 7, dash: [4, 4], width: 1 },
          { label: "goodput", values: points.map((each) => each.goodput?.value ?? null), tint: 2, points: true },
        ]}
        bands={[
          { low: points.map((each) => each.goodput?.low ?? null), high: points.map((each) => each.goodput?.high ?? null), tint: 2 },
        ]}
        rules={marks}
        shade={unstable === undefined ? undefined : { from: unstable, label: "falls behind" }}
        xRange={[0, (unstable ?? Math.max(...x)) * 1.08]}
        xLabel="req/s offered to one replica"
        yLabel="req/s"
        format={(value) => brief(value)}
        formatX={(value) => brief(value)}
        label={`Goodput by load of one replica, at most ${brief(best)} req/s`}
      />
    </Chart>
  );
}

const MOST_ROWS = 16;

/** Every load test beside the same test simulated: the error of the step model, which a place on the curve is not. */
function Residuals({ tests }: { tests: TestPoint[] }) {
  if (!tests.length) return null;
  const rows = tests.flatMap((test) => test.residuals.map((each) => ({ test: test.name, ...each })));
  const outside = rows.filter((each) => each.is_outside).length;
  const left = tests.filter((each) => each.reason !== null);
  if (!rows.length) return <Nothing>None of the load tests could be simulated as it was run: {left.map((each) => `${each.name} ${each.reason}`).join("; ")}.</Nothing>;
  return (
    <>
      <p class="lead">
        {outside
          ? `${outside} of ${rows.length} measured latencies lie outside the band of the step model.`
          : `All ${rows.length} measured latencies lie within the band of the step model.`}
        {left.length > 0 && ` Not simulated: ${left.map((each) => `${each.name} ${each.reason}`).join("; ")}.`}
      </p>
      <Chart
        title="Load tests: measured latency as a multiple of the simulated one"
        caption={`Each test is simulated as it was run, with its own lengths and arrivals; the line is the step model's band; a dot beyond it by no more than repeats of one run differ counts as within.${rows.length > MOST_ROWS ? ` ${MOST_ROWS} of ${rows.length}; the table has all.` : ""}`}
      >
        <Spans
          kind="dot"
          label={`Residuals of load tests: ${rows.slice(0, MOST_ROWS).map((each) => `${each.test} ${each.latency} ${each.statistic} ${brief(each.ratio)}`).join(", ")}`}
          format={(value) => `${brief(value)} ×`}
          rows={rows.slice(0, MOST_ROWS).map((each, at) => ({
            label: `${each.test}, ${each.latency.toUpperCase()} ${each.statistic}`,
            value: each.ratio,
            low: each.low_s / each.simulated_s,
            high: each.high_s / each.simulated_s,
            shown: `${brief(each.ratio)} ×`,
            tint: each.is_outside ? 5 : 0,
            first: at > 0 && rows[at - 1]!.test !== each.test,
          }))}
          rules={[{ at: 1, label: "as simulated" }]}
        />
        <Legend entries={[{ name: "within the band", tint: 0 }, { name: "outside it", tint: 5 }]} />
      </Chart>
      <details>
        <summary>The load tests as a table</summary>
        <Table
          caption="Load tests beside the same tests simulated"
          rows={rows}
          columns={[
            { head: "test", cell: (row) => row.test },
            { head: "latency", tight: true, cell: (row) => `${row.latency.toUpperCase()} ${row.statistic}` },
            { head: "measured", right: true, cell: (row) => seconds(row.measured_s) },
            { head: "simulated", right: true, cell: (row) => seconds(row.simulated_s) },
            { head: "band", right: true, cell: (row) => `${seconds(row.low_s)} to ${seconds(row.high_s)}` },
            { head: "verdict", cell: (row) => (row.is_outside ? "outside" : "within") },
          ]}
        />
      </details>
    </>
  );
}

function CurveTable({ points }: { points: LoadPoint[] }) {
  const { plan } = useTold();
  const names = plan.json.classes.flatMap((each) => each.slos.map((slo) => ({ name: each.name, slo: slo.name })));
  return (
    <details>
      <summary>The points as a table</summary>
      <Table
        caption="Loads of one replica"
        rows={points}
        columns={[
          { head: "req/s", cell: (row) => brief(row.offered_rps) },
          ...names.map(({ name, slo }) => ({
            head: `${name} ${latency(slo)}`,
            right: true,
            cell: (row: LoadPoint) => {
              const found = row.latencies[name]?.[slo];
              return found ? seconds(found.value) : "–";
            },
          })),
          { head: "goodput", right: true, cell: (row) => (row.goodput ? `${brief(row.goodput.value)} req/s` : "–") },
          {
            head: "goodput of offered",
            right: true,
            cell: (row) => (row.goodput ? percent(row.goodput.value / row.offered_rps) : "–"),
          },
          {
            head: "violated",
            cell: (row) => (row.is_sustained ? row.violated.join(", ") || "none" : "falls behind"),
          },
        ]}
      />
    </details>
  );
}
