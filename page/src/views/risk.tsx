import { Spans, type Span } from "../charts/spans";
import type { Quantity, RiskSeries } from "../document";
import { Chance, Chart, Fig, Named, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, chance, counted, part, percent, seconds, spaced, usd } from "../words";

export function RiskView() {
  const { plan } = useTold();
  const several = plan.pools.length > 1;
  return (
    <View id="risk" question="How often does it fall short, and what should be measured first?">
      {plan.pools.map((pool) => {
        const risk = plan.series(pool.name)?.risk ?? null;
        const of = several ? pool.name : "";
        // Pools share the risk that was chosen for the service.
        const chosen = plan.summary.risks.find((each) => each.pool === pool.name)?.chosen ?? plan.known("policy.shortfall");
        return (
          <div key={pool.name}>
            {several && <h3>{pool.name}</h3>}
            {plan.figure("risk.shortfall_fraction", of) ? (
              <Sentence>
                With a chance of <Chance of={plan.figure("risk.shortfall_fraction", of)} /> the busiest hour needs more replicas than are
                up, and <Hours of={plan.figure("risk.shortfall_hours", of)} /> a month are short of capacity
                {plan.figure("risk.chosen_replicas", of) && (
                  <>
                    ; a chance of <Chance of={chosen} /> would take <Named name="risk.chosen_replicas" pool={of} />
                  </>
                )}
                .
              </Sentence>
            ) : (
              <Sentence>The risk of this plan was not studied.</Sentence>
            )}
            {risk ? <PoolRisk risk={risk} of={of} chosen={chosen} /> : <Nothing>The risk study was skipped. Plan without --quick.</Nothing>}
          </div>
        );
      })}
      <Notes stage="uncertainty" />
    </View>
  );
}

/** Hours of a month, where there are few of them as minutes. */
const Hours = ({ of }: { of: Quantity | undefined }) => <Fig of={of} text={typeof of?.value === "number" ? seconds(of.value * 3600) : undefined} />;

const from = (low: number, high: number) => (low === high ? brief(low) : `${brief(low)} to ${brief(high)}`);

/** Beyond a thousand million a price says that nothing would be worth it. */
const worthFrom = (value: number | null) => (value === null ? "–" : value < 1e9 ? `${usd(value)} USD` : "no price");

function PoolRisk({ risk, of, chosen }: { risk: RiskSeries; of: string; chosen: Quantity | undefined }) {
  const { plan } = useTold();
  const target = Number(chosen?.value);
  const machines = risk.machines.filter((each, at) => risk.machines.findIndex((one) => one.replicas === each.replicas) === at);
  const planned = plan.figure("risk.shortfall_fraction", of);
  const need = ["p10", "p50", "p90"].map((each) => plan.figure(`risk.replicas_${each}`, of));
  return (
    <>
      <Chart title="Chance of a shortfall in the busiest hour, by serving replicas" caption="In steps of one machine; lines show two standard errors.">
        <Spans
          label={`Shortfall by replicas: ${machines.map((each) => `${counted(each.replicas, "replica")} ${percent(each.shortfall_fraction)}`).join(", ")}`}
          format={percent}
          rows={machines.map<Span>((each) => ({
            label: `${counted(each.replicas, "replica")}${each.replicas === risk.replicas ? ", planned" : ""}`,
            value: each.shortfall_fraction,
            low: Math.max(0, each.shortfall_fraction - 2 * each.error_fraction),
            high: each.shortfall_fraction + 2 * each.error_fraction,
            shown: chance(each.shortfall_fraction),
            name: each.replicas === risk.replicas ? planned?.name : null,
            tint: each.replicas === risk.replicas ? 1 : 0,
          }))}
          rules={Number.isNaN(target) ? [] : [{ at: target, label: `target: ${chance(target)}` }]}
        />
      </Chart>
      {need.every((each) => each !== undefined) && (
        <Chart title="Replicas that the busiest hour needs" caption="The line from p10 to p90 of all draws, the dot at p50.">
          <Spans
            label={`Replicas needed: ${need.map((each) => brief(Number(each!.value))).join(", ")}`}
            kind="dot"
            format={(value) => brief(value)}
            rows={[
              {
                label: "needed",
                value: Number(need[1]!.value),
                low: Number(need[0]!.value),
                high: Number(need[2]!.value),
                shown: from(Number(need[0]!.value), Number(need[2]!.value)),
                name: need[1]!.name,
              },
            ]}
            rules={[{ at: risk.replicas, label: `${risk.replicas} serve` }]}
          />
        </Chart>
      )}
      {risk.drivers.length === 0 && <Nothing>No input moves the answer: every draw needs the same.</Nothing>}
      {risk.drivers.length > 0 && (
      <Chart title={`What moves the ${risk.drives === "cost" ? "cost" : "number of replicas"}: share of variance by input`} caption="What each input explains alone, with its interval.">
        <Spans
          label={`Drivers: ${risk.drivers.map((each) => `${spaced(each.name)} ${percent(Math.max(0, each.first_fraction))}`).join(", ")}`}
          format={percent}
          most={Math.max(...risk.drivers.map((each) => each.first_high_fraction)) > 1 ? 1 : undefined}
          rows={[...risk.drivers].sort((a, b) => b.first_fraction - a.first_fraction).map<Span>((each) => ({
            label: spaced(each.name),
            value: Math.max(0, each.first_fraction),
            low: Math.max(0, each.first_low_fraction),
            high: Math.max(0, each.first_high_fraction),
            shown: part(Math.max(0, each.first_fraction)),
            name: plan.figure(`driver.${each.name}_fraction`, of)?.name,
          }))}
        />
      </Chart>
      )}
      {risk.measurements.length ? (
        <Table
          caption="What a measurement is worth, at the same risk"
          rows={risk.measurements}
          columns={[
            { head: "measure", cell: (row) => row.measurement.what },
            { head: "replicas now", right: true, cell: (row) => brief(row.now_replicas) },
            { head: "expected after", right: true, cell: (row) => brief(row.expected_replicas) },
            { head: "range", right: true, cell: (row) => from(row.low_replicas, row.high_replicas) },
            { head: "saves a month", right: true, cell: (row) => <Fig of={plan.figure(`information.${row.measurement.name}_usd`, of) ?? plan.figure(`information.${row.measurement.name}_replicas`, of)} /> },
            { head: "costs", right: true, cell: (row) => (row.measurement.usd === null ? "no price" : `${brief(row.measurement.usd)} USD`) },
          ]}
        />
      ) : (
        <Nothing>No measurement would change this plan much.</Nothing>
      )}
      <Table
        caption="How far an input may rise until the fleet is full in the median busiest hour"
        rows={risk.break_evens}
        columns={[
          { head: "input", cell: (row) => spaced(row.name) },
          { head: "may rise to", right: true, cell: (row) => (row.ratio === null ? "no limit found" : `${brief(row.ratio)} × expected`) },
        ]}
      />
      {risk.regrets.length > 0 && (
        <Table
          caption="Fleets by what they cost and how often they fall short"
          rows={risk.regrets}
          columns={[
            { head: "replicas", cell: (row) => brief(row.replicas) },
            { head: "a month", right: true, cell: (row) => `${usd(row.usd)} USD` },
            { head: "hours short a month", right: true, cell: (row) => brief(row.hours_per_month, 2) },
            { head: "worth it if a bad hour costs at least", right: true, cell: (row) => worthFrom(row.worth_from_usd) },
          ]}
        />
      )}
    </>
  );
}
