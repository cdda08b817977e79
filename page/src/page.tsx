import { Component, type ComponentChildren, type ComponentType } from "preact";
import { useCallback, useMemo, useState } from "preact/hooks";
import { Plan, type PlanJson } from "./document";
import { EVIDENCE } from "./evidence";
import { Explanation } from "./explain";
import { Nothing, Telling, View } from "./figure";
import { AnswerView } from "./views/answer";
import { AssumptionsView } from "./views/assumptions";
import { DemandView } from "./views/demand";
import { DrillsView } from "./views/drills";
import { FleetView } from "./views/fleet";
import { LimitsView } from "./views/limits";
import { LossesView } from "./views/losses";
import { MemoryView } from "./views/memory";
import { MoneyView } from "./views/money";
import { ReconcileView } from "./views/reconcile";
import { RiskView } from "./views/risk";
import { ScalingView } from "./views/scaling";
import { ServiceView } from "./views/service";

/** A view that `needs` something beside the plan is there where that was given. */
export const VIEWS: { id: string; name: string; view: ComponentType; needs?: "drilled" | "reconciled" }[] = [
  { id: "answer", name: "Answer", view: AnswerView },
  { id: "demand", name: "Demand", view: DemandView },
  { id: "memory", name: "Memory", view: MemoryView },
  { id: "service", name: "Service", view: ServiceView },
  { id: "limits", name: "Limits", view: LimitsView },
  { id: "fleet", name: "Fleet", view: FleetView },
  { id: "losses", name: "Losses", view: LossesView },
  { id: "drills", name: "Drills", view: DrillsView, needs: "drilled" },
  { id: "scaling", name: "Scaling", view: ScalingView },
  { id: "money", name: "Money", view: MoneyView },
  { id: "risk", name: "Risk", view: RiskView },
  { id: "reconcile", name: "Reconcile", view: ReconcileView, needs: "reconciled" },
  { id: "assumptions", name: "Assumptions", view: AssumptionsView },
];

/** A view that cannot be drawn says so, and the others are drawn. */
class Guarded extends Component<{ id: string; name: string; children: ComponentChildren }, { failed: boolean }> {
  state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  render() {
    if (!this.state.failed) return this.props.children;
    return (
      <View id={this.props.id} question={this.props.name}>
        <Nothing>This view could not be drawn from this plan: a part it needs is missing or malformed.</Nothing>
      </View>
    );
  }
}

/** All views of one plan, one below the other, so that they print and can be searched. */
export function PlanPage({ json }: { json: PlanJson }) {
  const plan = useMemo(() => new Plan(json), [json]);
  const [name, setName] = useState<string | null>(null);
  const explain = useCallback((wanted: string) => setName(wanted), []);
  const views = VIEWS.filter((each) => !each.needs || json[each.needs]);
  const told = useMemo(() => ({ plan, explain }), [plan, explain]);
  return (
    <Telling.Provider value={told}>
      <a class="skip" href="#answer">
        Skip to the answer
      </a>
      <header class="top">
        <h1>{json.service}</h1>
        <p class="about">
          Capacity plan as of <time class="nowrap">{json.as_of}</time>, until <time class="nowrap">{json.summary.until}</time>, seed {json.seed}. {json.summary.assumption_count} assumptions,{" "}
          {json.summary.stale_count} past their age.
        </p>
        <p class="signs">
          Every number is a button that explains itself. Its sign says how it is known:{" "}
          {Object.entries(EVIDENCE).map(([kind, each]) => (
            <span key={kind} class={`badge ${kind}`} title={each.what}>
              {each.sign} {kind}
            </span>
          ))}
        </p>
      </header>
      <nav class="views" aria-label="Views">
        <ul>
          {views.map((each) => (
            <li key={each.id}>
              <a href={`#${each.id}`}>{each.name}</a>
            </li>
          ))}
        </ul>
      </nav>
      <main>
        {views.map(({ id, name: said, view: Shown }) => (
          <Guarded key={id} id={id} name={said}>
            <Shown />
          </Guarded>
        ))}
      </main>
      <footer>Made by Ullage. Prices and quotas may change; the plan guarantees neither.</footer>
      <Explanation plan={plan} name={name} close={() => setName(null)} />
    </Telling.Provider>
  );
}
