import { Fragment } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Stacked } from "../charts/stacked";
import type { Quantity, SheetRow } from "../document";
import { EVIDENCE, sign } from "../evidence";
import { Place } from "../explain";
import { Chart, Fig, Nothing, Notes, Sentence, Table, useTold, View } from "../figure";
import { brief, show } from "../words";

/** What is measured is green and what is only assumed is grey: it is not wrong, only weak. */
const TINTS: Record<string, number> = { measured: 2, calibrated: 0, profiled: 4, estimated: 3, stated: 6, assumed: 7 };

export function AssumptionsView() {
  const { plan } = useTold();
  const all = useMemo(() => Object.values(plan.json.assumptions), [plan]);
  const figures = Object.values(plan.json.figures);
  const { assumption_count: own, stale_count: stale } = plan.json.summary;
  const bar = (label: string, some: Quantity[]) => ({
    label,
    remark: brief(some.length),
    parts: Object.keys(EVIDENCE).map((kind) => {
      const count = some.filter((each) => each.evidence === kind).length;
      return { label: `${sign(kind)} ${kind}`, value: some.length ? count / some.length : 0, shown: String(count), tint: TINTS[kind] ?? 7 };
    }),
  });
  return (
    <View id="assumptions" question="Which assumptions is the plan based on?">
      <Sentence>
        The plan rests on {brief(own)} assumptions{all.length > own ? `, advice and risk study on ${brief(all.length - own)} more` : ""}, each with its
        source and date; of the plan's {stale ? `${stale} ${stale === 1 ? "is" : "are"} past their maximum age` : "none is past its maximum age"}.
      </Sentence>
      <Chart title="Evidence behind the numbers" caption="A figure carries the weakest evidence class of its inputs.">
        <Stacked label="Evidence classes of figures and assumptions" whole={1.12} bars={[bar("figures", figures), bar("assumptions", all)]} />
      </Chart>
      <Margins />
      <Sheet rows={plan.json.scorecard} caption="Scorecard" />
      <List all={all} />
      {!plan.json.reconciled && <Reconciled />}
      {plan.json.not_guaranteed.length > 0 && (
        <details>
          <summary>Not guaranteed here ({plan.json.not_guaranteed.length})</summary>
          <ul>
            {plan.json.not_guaranteed.map((each) => (
              <li key={`${each.what}${each.rests_on}`}>
                {each.what}: <Fig of={plan.known(each.rests_on)} text={each.rests_on} />
              </li>
            ))}
          </ul>
        </details>
      )}
    </View>
  );
}

function Margins() {
  const { plan } = useTold();
  const rows = Object.entries(plan.json.margins).flatMap(([pool, some]) => some.map((each) => ({ pool, ...each })));
  if (!rows.length) return null;
  return (
    <Table
      caption="All margins, none applied twice"
      rows={rows}
      columns={[
        { head: "where", cell: (row) => (row.pool ? `${row.pool}: ${row.where}` : row.where) },
        { head: "size", right: true, cell: (row) => <Fig of={row.size} /> },
        { head: "costs", right: true, cell: (row) => (row.cost ? <Fig of={row.cost} /> : "–") },
        { head: "reason", wide: true, cell: (row) => row.reason },
      ]}
    />
  );
}

function Sheet({ rows, caption }: { rows: SheetRow[]; caption: string }) {
  const { plan } = useTold();
  return (
    <Table
      caption={caption}
      rows={rows}
      columns={[
        { head: "what", cell: (row) => row.what },
        {
          head: "figures",
          cell: (row) =>
            row.figures.length ? (
              <span class="several">
                {row.figures.map((each) => (
                  <Fig key={each} of={plan.known(each)} />
                ))}
              </span>
            ) : (
              row.missing.length ? "not given" : "–"
            ),
        },
        { head: "evidence", cell: (row) => row.evidence ?? "" },
      ]}
    />
  );
}

/** A name of several parts may end its line after each of them. */
const Broken = ({ name }: { name: string }) => (
  <>
    {name.split(/(?<=[._])/).map((each, at) => (
      <Fragment key={at}>
        {at > 0 && <wbr />}
        {each}
      </Fragment>
    ))}
  </>
);

function List({ all }: { all: Quantity[] }) {
  const [wanted, setWanted] = useState("");
  const shown = all.filter((each) => JSON.stringify(each).toLowerCase().includes(wanted.toLowerCase()));
  return (
    <div class="every">
      <label class="find">
        Find an assumption{" "}
        <input type="search" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} placeholder="price, failures, chat" />
      </label>
      <p class="faint" role="status">
        {shown.length} of {all.length}
      </p>
      <Table
        caption="Assumptions with their sources"
        rows={shown}
        columns={[
          { head: "assumption", cell: (row) => <Broken name={row.name} /> },
          { head: "value", right: true, cell: (row) => <Fig of={row} /> },
          { head: "range", cell: (row) => (row.low === undefined || row.low === row.high ? "" : `${show(row.low, row.unit)} to ${show(row.high!, row.unit)}`) },
          { head: "evidence", cell: (row) => `${row.evidence}${row.is_stale ? ", past its maximum age" : ""}` },
          {
            head: "source",
            cell: (row) =>
              (row.sources ?? []).map((each) => (
                <span key={each.what} class="source">
                  {each.what}; <Place where={each.where} />; {each.date}
                </span>
              )),
          },
        ]}
      />
    </div>
  );
}

function Reconciled() {
  const { plan } = useTold();
  const stage = plan.stage("reconcile");
  if (!stage) return null;
  if (stage.missing)
    return (
      <Nothing>
        {stage.missing.instead} {stage.missing.fix}
      </Nothing>
    );
  return (
    <>
      <Table
        caption="Planned and observed, at the last reconciliation"
        rows={stage.figures.map((each) => plan.known(each)).filter((each) => each !== undefined)}
        columns={[
          { head: "figure", cell: (row) => row.name },
          { head: "value", right: true, cell: (row) => <Fig of={row} /> },
          { head: "how", wide: true, cell: (row) => row.formula ?? "" },
        ]}
      />
      <Notes stage="reconcile" />
    </>
  );
}
