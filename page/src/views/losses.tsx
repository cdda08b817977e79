import { Spans, type Span } from "../charts/spans";
import { Legend } from "../charts/stacked";
import type { LossPhases } from "../document";
import { Chart, Fig, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { latency, percent, seconds } from "../words";

const WORDS: Record<string, string> = { holds: "met", breaks: "violated", undecided: "undecided", outage: "outage" };

export function LossesView() {
  const { plan } = useTold();
  const several = plan.pools.length > 1;
  return (
    <View id="losses" question="What does the fleet survive?">
      {plan.pools.map((pool) => (
        <PoolLosses key={pool.name} name={pool.name} several={several} />
      ))}
      {!plan.json.drilled && (
        <Nothing>
          Drills are not part of a plan: <code>ullage drill --json</code> runs ten more failure scenarios on it, and{" "}
          <code>ullage report --drills FILE</code> shows them here.
        </Nothing>
      )}
    </View>
  );
}

function PoolLosses({ name, several }: { name: string; several: boolean }) {
  const { plan } = useTold();
  const losses = plan.series(name)?.losses ?? [];
  const of = several ? name : "";
  const failed = losses.filter((each) => each.verdict === "breaks" || each.verdict === "outage");
  const open = losses.filter((each) => each.verdict === "undecided");
  const named = (each: LossPhases) => `the ${{ region: "loss of the region", zone: "loss of a zone", node: "loss of a node", replica: "loss of a replica" }[each.name] ?? each.title}`;
  return (
    <>
      {several && <h3>{name}</h3>}
      {losses.length === 0 ? (
        <>
          <Sentence>What this fleet survives is not part of this document.</Sentence>
          <Nothing>Plan again with this version to have the simulated losses.</Nothing>
        </>
      ) : (
        <>
          <Sentence>
            {losses.length - failed.length - open.length} of {losses.length} simulated events meet every SLO
            {open.length > 0 && `; ${open.map(named).join(" and ")} ${open.length === 1 ? "is" : "are"} undecided`}
            {failed.length ? `; ${failed.map(named).join(" and ")} ${failed.length === 1 ? "does" : "do"} not.` : "."}
          </Sentence>
          <Chart title="Requests within their SLO while each event lasts" caption="For the worst-attained SLO, in one run of each event; the dashed line is what the SLO requires.">
            <Spans
              label={`Attainment during each event: ${losses.map((each) => `${each.title} ${each.during ? percent(each.during.value) : each.verdict}`).join(", ")}`}
              kind="dot"
              format={percent}
              most={1}
              rows={losses.flatMap<Span>((each) => [
                {
                  label: each.title,
                  value: each.during?.value ?? null,
                  low: each.during?.low,
                  high: each.during?.high,
                  shown: each.during ? percent(each.during.value) : WORDS[each.verdict] ?? each.verdict,
                  name: plan.figure(`loss.${each.name}.attained_fraction`, of)?.name ?? plan.figure(`loss.${each.name}.verdict`, of)?.name,
                  tint: each.verdict === "holds" ? 0 : each.verdict === "undecided" ? 1 : 5,
                },
              ])}
              rules={rules(losses)}
            />
            <Legend entries={[{ name: "SLO met", tint: 0 }, { name: "undecided", tint: 1 }, { name: "SLO violated or outage", tint: 5 }]} />
          </Chart>
          <Table
            caption="Losses simulated on the planned fleet"
            rows={losses}
            columns={[
              { head: "event", cell: (row) => row.title },
              { head: "covered by", cell: (row) => row.covered_by || "nothing" },
              { head: "outcome", cell: (row) => <Fig of={plan.figure(`loss.${row.name}.verdict`, of)} text={WORDS[row.verdict] ?? row.verdict} /> },
              { head: "worst SLO", tight: true, cell: (row) => slo(row.slo_name) },
              { head: "before", right: true, cell: (row) => (row.before ? percent(row.before.value) : "–") },
              { head: "during", right: true, cell: (row) => (row.during ? <Fig of={plan.figure(`loss.${row.name}.attained_fraction`, of)} text={percent(row.during.value)} /> : "–") },
              { head: "after", right: true, cell: (row) => (row.after ? percent(row.after.value) : "–") },
              { head: "recovers in", right: true, cell: (row) => (row.recover_s === null ? "–" : row.recover_s === 0 ? "at once" : seconds(row.recover_s)) },
              { head: "why", wide: true, cell: (row) => row.reason },
            ]}
          />
        </>
      )}
      <Notes stage="loss_checks" pool={of} />
    </>
  );
}

const slo = (name: string) => {
  const at = name.lastIndexOf(" ");
  return at < 0 ? name : `${name.slice(0, at)} ${latency(name.slice(at + 1))}`;
};

function rules(losses: LossPhases[]) {
  const required = [...new Set(losses.map((each) => each.required_fraction).filter((each) => each !== null))];
  return required.length === 1 ? [{ at: required[0]!, label: `required: ${percent(required[0]!)}` }] : [];
}
