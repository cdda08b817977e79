import { render } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Drill, PlanJson } from "../document";
import { Nothing } from "../figure";
import { PlanPage } from "../page";
import { brief, counted, percent, usd } from "../words";
import "../style.css";
import "./live.css";
import { archive } from "./archive";
import { Controls, Panel } from "./controls";
import { useDesk, type Desk } from "./desk";
import { Files } from "./files";
import { command, fromAddress, STILL, toAddress, viewOf, type Moves } from "./moves";
import { keptBefore, remember, scenario, Scenarios, type Scenario } from "./scenarios";
import { answered, Refused, token, type Asked, type Estimate } from "./service";

/** What a plan is most often emitted as; `ullage emit --list` has all of it. */
const TARGETS = ["deployment, pdb, prometheus", "deployment", "vllm", "keda", "hpa", "prometheus", "grafana", "openslo", "envoy-gateway", "kueue", "karpenter", "tfvars"];

function Live() {
  const [moves, setMoves] = useState<Moves>(() => fromAddress(location.hash));
  const [kept, setKept] = useState<Scenario[]>(keptBefore);
  const [drills, setDrills] = useState<{ of: PlanJson; drilled: NonNullable<PlanJson["drilled"]> } | null>(null);
  const [targets, setTargets] = useState(TARGETS[0]!);
  const [devices, setDevices] = useState<string[]>([]);
  const desk = useDesk(moves);
  useEffect(() => remember(kept), [kept]);
  useEffect(() => {
    const write = () => history.replaceState(null, "", toAddress(moves, viewOf(location.hash)));
    write();
    // Who goes to a view keeps the controls in the address.
    addEventListener("hashchange", write);
    return () => removeEventListener("hashchange", write);
  }, [moves]);
  useEffect(() => {
    void answered<{ sheets?: { name: string }[] }>("facts", { kind: "devices" })
      .then((found) => setDevices(namesIn(found)))
      .catch(() => setDevices([]));
  }, []);
  const move = (changed: Partial<Moves>) => setMoves((before) => ({ ...before, ...changed }));
  const { plan } = desk;
  // Drills are of one plan, and go with it.
  const shown = useMemo(() => (plan && drills?.of === plan ? { ...plan, drilled: drills.drilled } : plan), [plan, drills]);
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
      <Panel title="Drills">
        <p class="row">
          <Asking
            said="Run the drills on this plan"
            busy="Running ten drills, which takes about as long as a plan"
            request={desk.isDecided ? desk.request : null}
            ask={async (request, signal) => {
              const of = plan;
              const drilled = await answered<{ results: Drill[]; notes: string[] }>("drill", request, signal);
              if (of) setDrills({ of, drilled });
            }}
          />
          {shown?.drilled && <a href="#drills">What they showed</a>}
        </p>
      </Panel>
      <PlanFile given={moves.plan} use={(text) => setMoves({ ...STILL, plan: text })} />
      <Panel title="Export this plan">
        <div class="row">
          <button type="button" disabled={!plan} onClick={() => plan && save("plan.json", "application/json", JSON.stringify(plan, null, 2))}>
            The plan as JSON
          </button>
          <button type="button" disabled={!shown} onClick={() => shown && void saveReport(shown)}>
            The report as one file
          </button>
          <CopyLink />
          <button type="button" onClick={() => setMoves(STILL)}>
            Back to the plan as it was
          </button>
        </div>
        <div class="row">
          <label>
            Emit{" "}
            <select value={targets} onChange={(event) => setTargets(event.currentTarget.value)}>
              {TARGETS.map((each) => (
                <option key={each} value={each}>
                  {each}
                </option>
              ))}
            </select>
          </label>
          <Asking
            said="The emitted files"
            busy="Planning and writing the files"
            request={desk.isDecided ? desk.request : null}
            ask={async (request, signal) => {
              const asked = { ...request, targets: targets.split(", ") };
              const found = await answered<{ files: { name: string; text: string }[] }>("emit", asked, signal);
              saveBlob("plan-files.tar", archive(found.files));
            }}
          />
        </div>
        {desk.request && (
          <p class="command">
            The same on a command line: <code>{command(desk.request)}</code>
          </p>
        )}
      </Panel>
      {plan && !desk.isDecided && <Nothing>The views below show the last full plan, before this change.</Nothing>}
    </section>
  );
  return (
    <>
      {board}
      {shown ? (
        <PlanPage json={shown} />
      ) : (
        <main>
          <h1>Ullage</h1>
          <Nothing>The views of the plan stand here as soon as it is decided: answer, demand, memory, service, limits, fleet, losses, scaling, money and assumptions.</Nothing>
        </main>
      )}
    </>
  );
}

function CopyLink() {
  const [said, setSaid] = useState("");
  // Without TLS a browser gives pages no clipboard.
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      setSaid("Copied.");
    } catch {
      setSaid("Copy it from the address bar: this browser gives the page no clipboard.");
    }
  };
  return (
    <>
      <button type="button" onClick={() => void copy()}>
        Copy a link to these controls
      </button>
      <span role="status" class="faint">
        {said}
      </span>
    </>
  );
}

/** A button that asks the service for something of the decided plan, says that it does, and what was refused. */
function Asking(props: { said: string; busy: string; request: Asked | null; ask: (request: Omit<Asked, "quick">, signal: AbortSignal) => Promise<void> }) {
  const [under, setUnder] = useState<AbortController | null>(null);
  const [refused, setRefused] = useState("");
  useEffect(() => () => under?.abort(), [under, props.request]);
  const start = async () => {
    if (!props.request) return;
    const gone = new AbortController();
    setUnder(gone);
    setRefused("");
    const { plan, set, traffic } = props.request;
    try {
      await props.ask({ plan, set, traffic }, gone.signal);
    } catch (error) {
      if (!gone.signal.aborted) setRefused(error instanceof Refused ? `${error.title}: ${error.message}` : String(error));
    }
    setUnder(null);
  };
  return (
    <>
      <button type="button" disabled={!props.request || under !== null} onClick={() => void start()}>
        {props.said}
      </button>
      {under && (
        <button type="button" onClick={() => under.abort()}>
          Stop
        </button>
      )}
      <span role="status" class={refused ? "problem" : "faint"}>
        {under ? `${props.busy}.` : refused}
      </span>
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
            <strong>{refused?.status === 0 ? refused.title : "The service is busy"}.</strong> {refused?.message} Asking again in {waiting} s.
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
      {refused && <Remedies of={refused.document} />}
      {refused && waiting === null && (
        <button type="button" onClick={desk.again}>
          Ask again
        </button>
      )}
      {refused?.status === 401 && <TokenField again={desk.again} />}
    </div>
  );
}

/** What would make a refused plan fit, as the terminal lists it. */
function Remedies({ of }: { of: unknown }) {
  const found = (of as { refused?: { remedies?: { change: string; effect: string }[] } } | null)?.refused?.remedies ?? [];
  if (!found.length) return null;
  return (
    <>
      <p>What would make it fit:</p>
      <ul>
        {found.map((each) => (
          <li key={each.change}>
            <strong>{each.change}</strong>: {each.effect}
          </li>
        ))}
      </ul>
    </>
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
  const pools = plan.summary.pools.map((each) => `${counted(Number(each.machines.replicas.value), "replica")} on ${each.machines.devices.value} ${each.machines.device}`);
  const total = plan.summary.total_usd?.value;
  return `${pools.join(", ")}${typeof total === "number" ? `, ${usd(total)} USD a month` : ""}.`;
};

const guess = (estimate: Estimate) => {
  const pools = estimate.pools.map((each) => {
    const [low, high] = [each.low_replicas + each.reserve_replicas, each.high_replicas + each.reserve_replicas];
    return `about ${counted(each.total_replicas, "replica")}${low < high ? ` (${low} to ${high})` : ""} on ${each.devices} ${each.device}`;
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

const save = (name: string, type: string, text: string) => saveBlob(name, new Blob([text], { type }));

function saveBlob(name: string, blob: Blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
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
