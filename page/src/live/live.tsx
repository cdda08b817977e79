import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { PlanJson } from "../document";
import { Nothing } from "../figure";
import { PlanPage } from "../page";
import { brief, percent, usd } from "../words";
import "../style.css";
import "./live.css";
import { Controls, Panel } from "./controls";
import { useDesk, type Desk } from "./desk";
import { Files } from "./files";
import { command, fromAddress, STILL, toAddress, type Moves } from "./moves";
import { scenario, Scenarios, type Scenario } from "./scenarios";
import { answered, token, type Estimate } from "./service";

function Live() {
  const [moves, setMoves] = useState<Moves>(() => fromAddress(location.search));
  const [kept, setKept] = useState<Scenario[]>([]);
  const [devices, setDevices] = useState<string[]>([]);
  const desk = useDesk(moves);
  useEffect(() => history.replaceState(null, "", toAddress(moves) + location.hash), [moves]);
  useEffect(() => {
    void answered<{ sheets?: { name: string }[] }>("facts", { kind: "devices" })
      .then((found) => setDevices(namesIn(found)))
      .catch(() => setDevices([]));
  }, []);
  const move = (changed: Partial<Moves>) => setMoves((before) => ({ ...before, ...changed }));
  const { plan } = desk;
  const board = (
    <section class="live" aria-label="What if">
      <Status desk={desk} />
      <Controls moves={moves} move={move} from={desk.base} devices={devices} />
      <Scenarios
        kept={kept}
        canKeep={desk.isDecided && plan !== null}
        keep={(name) => plan && setKept((before) => [...before.filter((each) => each.name !== name), scenario(name, moves, plan)])}
        drop={(name) => setKept((before) => before.filter((each) => each.name !== name))}
        open={setMoves}
      />
      <Files inUse={moves.files} use={(key, name) => move({ files: { ...moves.files, [key]: [...(moves.files[key] ?? []), name] } })} />
      <PlanFile given={moves.plan} use={(text) => setMoves({ ...STILL, plan: text })} />
      <Panel title="Take it with you">
        <div class="row">
          <button type="button" disabled={!plan} onClick={() => plan && save("plan.json", "application/json", JSON.stringify(plan, null, 2))}>
            The plan as JSON
          </button>
          <button type="button" disabled={!plan} onClick={() => plan && void saveReport(plan)}>
            The report as one file
          </button>
          <button type="button" onClick={() => void navigator.clipboard.writeText(location.href)}>
            Copy a link to these controls
          </button>
          <button type="button" onClick={() => setMoves(STILL)}>
            Back to the plan as it was
          </button>
        </div>
        {desk.request && (
          <p class="command">
            The same on a command line: <code>{command(desk.request)}</code>
          </p>
        )}
      </Panel>
      {plan && !desk.isDecided && <Nothing>The views below are of the plan that was decided last, before this change.</Nothing>}
    </section>
  );
  return (
    <>
      {board}
      {plan ? <PlanPage json={plan} /> : <main><h1>Ullage</h1></main>}
    </>
  );
}

/** What is known now: an estimate that is being decided, a decided plan, or why there is neither. */
function Status({ desk }: { desk: Desk }) {
  const { estimate, job, refused, isDecided, plan, waiting_s: waiting } = desk;
  return (
    <div class="status" data-state={refused ? "refused" : isDecided ? "decided" : "estimate"}>
      <p role="status" class="sentence">
        {waiting !== null ? (
          <>
            <strong>The service is busy.</strong> {refused?.message} Asking again in {waiting} s.
          </>
        ) : refused ? (
          <>
            <strong>{refused.title}.</strong> {refused.message}
          </>
        ) : isDecided && plan ? (
          <>
            <strong>Decided: {plan.summary.verdict}.</strong> {headline(plan)}
          </>
        ) : estimate ? (
          <>
            <strong>Estimate, being decided:</strong> {guess(estimate)}
          </>
        ) : (
          "Asking for a first look."
        )}
      </p>
      {job && (
        <p class="row">
          <progress value={job.fraction} max={1} aria-label="How far the plan is" /> {job.state === "running" ? job.stage || "planning" : job.state}{" "}
          {percent(job.fraction)}
          <button type="button" onClick={desk.stop}>
            Cancel
          </button>
        </p>
      )}
      {refused && waiting === null && (
        <button type="button" onClick={desk.again}>
          Ask again
        </button>
      )}
      {refused?.status === 401 && <TokenField again={desk.again} />}
    </div>
  );
}

function TokenField({ again }: { again: () => void }) {
  const [value, setValue] = useState("");
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        token.set(value);
        again();
      }}
    >
      <label>
        Token <input type="password" autocomplete="off" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
      </label>
      <button type="submit">Use it for this tab</button>
    </form>
  );
}

function PlanFile({ given, use }: { given: string | null; use: (text: string | null) => void }) {
  const [text, setText] = useState(given ?? "");
  return (
    <Panel title="Plan file">
      <label class="block">
        A plan file, as ullage init writes it; empty for the built-in example
        <textarea rows={12} spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="button" onClick={() => use(text.trim() ? text : null)}>
        Plan this file
      </button>
    </Panel>
  );
}

const headline = (plan: PlanJson) => {
  const pools = plan.summary.pools.map((each) => `${each.machines.replicas.value} replicas on ${each.machines.devices.value} ${each.machines.device}`);
  const total = plan.summary.total_usd?.value;
  return `${pools.join(", ")}${typeof total === "number" ? `, ${usd(total)} USD a month` : ""}.`;
};

const guess = (estimate: Estimate) => {
  const pools = estimate.pools.map((each) => {
    const [low, high] = [each.low_replicas + each.reserve_replicas, each.high_replicas + each.reserve_replicas];
    return `about ${each.total_replicas} replicas (${low} to ${high}) on ${each.devices} ${each.device}`;
  });
  const money = estimate.usd === null ? "" : `, devices ${usd(estimate.usd)} USD a month`;
  const pending = estimate.pending.length ? `; nothing yet of ${estimate.pending.join(", ")}` : "";
  return `${pools.join(", ")} for ${brief(estimate.planning_rps)} req/s${money}${pending}.`;
};

/** Names of the catalogue's sheets, wherever the answer keeps them. */
function namesIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(namesIn);
  if (value === null || typeof value !== "object") return [];
  const own = value as Record<string, unknown>;
  if (typeof own["name"] === "string" && ("quantities" in own || "figures" in own || "values" in own || "aliases" in own)) return [own["name"]];
  return Object.values(own).flatMap(namesIn);
}

function save(name: string, type: string, text: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** The report that `ullage report` writes of this plan: its page, with the plan in it as text that nothing runs. */
async function saveReport(plan: PlanJson) {
  const page = await (await fetch("/report.html")).text();
  const text = JSON.stringify(plan).replaceAll("<", "\\u003c").replaceAll(">", "\\u003e").replaceAll("&", "\\u0026");
  save("plan.html", "text/html", page.replace("<!--plan-->", () => `<script type="application/json" id="plan">${text}</script>`));
}

const place = document.getElementById("page");
if (place) {
  place.replaceChildren();
  render(<Live />, place);
}
