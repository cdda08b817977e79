import { useState } from "preact/hooks";
import type { PlanJson, Quantity } from "../document";
import { counted, show, usd } from "../words";
import { Panel } from "./controls";
import type { Moves } from "./moves";

export interface Scenario {
  name: string;
  moves: Moves;
  figures: Record<string, Quantity | null>;
  verdict: string;
}

const ROWS: [string, string][] = [
  ["demand.planning_rate", "busiest hour"],
  ["fleet.total_replicas", "replicas"],
  ["packing.devices", "devices"],
  ["packing.nodes", "machines"],
  ["bill.total_usd", "a month"],
  ["bill.per_success_usd", "a success"],
  ["risk.shortfall_fraction", "chance of a shortfall"],
];

export function scenario(name: string, moves: Moves, plan: PlanJson): Scenario {
  const { total_usd: total, per_success: success } = plan.summary;
  const pick = (figure: string): Quantity | null => {
    // A bill without its devices is none, and the summary says so.
    if (figure.startsWith("bill.")) return figure === "bill.total_usd" ? total : success;
    const whole = plan.figures[figure];
    if (whole) return whole;
    const parts = plan.summary.pools.map((each) => plan.figures[`${each.name}.${figure}`]).filter((each) => each !== undefined);
    const first = parts[0];
    // Of several pools what is counted adds up; a chance does not.
    if (!first || first.unit === "fraction") return null;
    return { ...first, value: parts.reduce((sum, each) => sum + Number(each.value), 0) };
  };
  return { name, moves, verdict: plan.summary.verdict, figures: Object.fromEntries(ROWS.map(([each]) => [each, pick(each)])) };
}

const STORE = "ullage-scenarios";
const MOST_KEPT = 20;

/** Scenarios stay in this browser, so that a page that is loaded again has them; they are sent nowhere. */
export function remember(kept: Scenario[]) {
  try {
    localStorage.setItem(STORE, JSON.stringify(kept.slice(-MOST_KEPT)));
  } catch {
    // A browser that stores nothing still compares what is open.
  }
}

export function keptBefore(): Scenario[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(STORE) ?? "[]");
    const whole = (each: unknown): each is Scenario => typeof each === "object" && each !== null && "name" in each && "moves" in each && "figures" in each;
    return Array.isArray(found) ? found.filter(whole) : [];
  } catch {
    return [];
  }
}

const said = (of: Quantity | null | undefined) => (of && of.unit === "nodes" ? counted(Number(of.value), "machine") : of ? (of.unit === "USD" && Number(of.value) >= 1 ? `${usd(Number(of.value))} USD` : show(of.value, of.unit)) : "–");

export function Scenarios(props: {
  kept: Scenario[];
  canKeep: boolean;
  keep: (name: string) => void;
  drop: (name: string) => void;
  open: (moves: Moves) => void;
}) {
  const [name, setName] = useState("");
  return (
    <Panel title={`Scenarios${props.kept.length ? ` (${props.kept.length})` : ""}`} open={props.kept.length > 0}>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          if (!name.trim()) return;
          props.keep(name.trim());
          setName("");
        }}
      >
        <label>
          Name <input value={name} maxLength={60} onInput={(event) => setName(event.currentTarget.value)} />
        </label>
        <button type="submit" disabled={!props.canKeep || !name.trim()}>
          Keep this plan
        </button>
        {!props.canKeep && <span class="faint">once it is decided</span>}
      </form>
      {props.kept.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Scenarios side by side">
          <table class="compared">
            <caption>Scenarios side by side</caption>
            <thead>
              <tr>
                <th scope="col">figure</th>
                {props.kept.map((each) => (
                  <th key={each.name} scope="col" class="right">
                    {each.name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              <tr>
                <th scope="row">verdict</th>
                {props.kept.map((each) => (
                  <td key={each.name} class="right">
                    {each.verdict}
                  </td>
                ))}
              </tr>
              {ROWS.map(([figure, word]) => (
                <tr key={figure}>
                  <th scope="row">{word}</th>
                  {props.kept.map((each) => (
                    <td key={each.name} class="right">
                      {said(each.figures[figure])}
                    </td>
                  ))}
                </tr>
              ))}
              <tr>
                <th scope="row">
                  <span class="faint">this scenario</span>
                </th>
                {props.kept.map((each) => (
                  <td key={each.name} class="right">
                    <button type="button" onClick={() => props.open(each.moves)} aria-label={`Open ${each.name}`}>
                      open
                    </button>{" "}
                    <button type="button" onClick={() => props.drop(each.name)} aria-label={`Remove ${each.name}`}>
                      remove
                    </button>
                  </td>
                ))}
              </tr>
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
