import { Spans } from "../charts/spans";
import { Legend, Stacked } from "../charts/stacked";
import type { Drill } from "../document";
import { Chart, Fig, Sentence, Table, useTold, View } from "../figure";
import { counted, percent } from "../words";

const VERDICTS: [string, string, number][] = [
  ["passes", "passes", 2],
  ["undecided", "undecided", 1],
  ["fails", "fails", 5],
  ["not played", "not played", 7],
];
const tint = (verdict: string) => VERDICTS.find(([each]) => each === verdict)?.[2] ?? 7;
const share = (of: Drill) => (of.during?.unit === "fraction" && typeof of.during.value === "number" ? of.during.value : null);

export function DrillsView() {
  const { plan } = useTold();
  const drills = plan.json.drilled!;
  const played = drills.results.filter((each) => each.verdict !== "not played");
  const failed = played.filter((each) => each.verdict === "fails");
  const several = new Set(drills.results.map((each) => each.pool).filter(Boolean)).size > 1;
  const named = (of: Drill) => (several && of.pool ? `${of.pool}: ${of.title}` : of.title);
  // Shares of requests only: an idle part of a fleet is no success.
  const shares = played.filter((each) => share(each) !== null && each.figure.startsWith("requests within"));
  return (
    <View id="drills" question="What goes wrong in practice, and does the plan withstand it?">
      <Sentence>
        {failed.length
          ? `${failed.length} of ${counted(played.length, "drill")} fail: ${failed.map(named).join(", ")}.`
          : `All ${counted(played.length, "drill")} that apply to this plan pass or are undecided.`}{" "}
        Each failed one names the change that would pass.
      </Sentence>
      <Chart title="Drills by outcome" caption="Undecided: below the requirement by no more than runs differ. Not played: does not apply to this plan.">
        <Stacked
          label={VERDICTS.map(([verdict, word]) => `${word} ${drills.results.filter((each) => each.verdict === verdict).length}`).join(", ")}
          bars={[
            {
              label: "",
              parts: VERDICTS.map(([verdict, word, colour]) => {
                const count = drills.results.filter((each) => each.verdict === verdict).length;
                return { label: word, value: count, shown: String(count), tint: colour };
              }),
            },
          ]}
        />
      </Chart>
      {shares.length > 0 && (
        <Chart title="Requests within their SLO during each drill" caption="For the worst-attained SLO; the line runs from the drill to the value before it.">
          <Spans
            kind="dot"
            most={1}
            format={percent}
            label={`Attainment during drills: ${shares.map((each) => `${named(each)} ${percent(share(each)!)}`).join(", ")}`}
            rows={shares.map((each) => {
              const [now, before] = [share(each)!, Number(each.before?.value ?? share(each)!)];
              return {
                label: named(each),
                value: now,
                low: Math.min(now, before),
                high: Math.max(now, before),
                shown: percent(now),
                name: each.during!.name,
                tint: tint(each.verdict),
              };
            })}
          />
          <Legend entries={VERDICTS.slice(0, 3).map(([, name, colour]) => ({ name, tint: colour }))} />
        </Chart>
      )}
      <Table
        caption="Drills played on the plan"
        rows={drills.results}
        columns={[
          { head: "drill", cell: (row) => named(row) },
          { head: "outcome", tight: true, cell: (row) => <strong class={row.verdict === "fails" ? "bad" : ""}>{row.verdict}</strong> },
          { head: "before", right: true, cell: (row) => (row.before ? <Fig of={row.before} /> : "–") },
          { head: "during", right: true, cell: (row) => (row.during ? <Fig of={row.during} /> : "–") },
          { head: "wanted", cell: (row) => row.wanted || "–" },
          { head: "what was played", wide: true, cell: (row) => row.played },
          { head: "would pass", wide: true, cell: (row) => row.change || "–" },
        ]}
      />
      {drills.notes.map((each) => (
        <p key={each} class="beside">
          {each}
        </p>
      ))}
    </View>
  );
}
