import { useEffect, useRef, useState } from "preact/hooks";
import type { PlanJson } from "../document";
import { asked, restsOnPlan, type Moves } from "./moves";
import { answered, cancel, ended, post, Refused, type Asked, type Estimate, type Job } from "./service";

/** A hand moves a slider for so long before the service is asked, so that one move is one question. */
const STILL_MS = 150;
/** Not randomUUID, which browsers give to pages over TLS alone. */
const SESSION = Array.from(crypto.getRandomValues(new Uint8Array(16)), (each) => each.toString(16).padStart(2, "0")).join("");

export interface Desk {
  request: Asked | null;
  estimate: Estimate | null;
  job: Job | null;
  plan: PlanJson | null;
  /** The plan that the controls began from: what "as planned" means. */
  base: PlanJson | null;
  /** Whether `plan` is the answer to what the controls say now. */
  isDecided: boolean;
  refused: Refused | null;
  waiting_s: number | null;
  stop: () => void;
  again: () => void;
}

/** Asks the service whenever the controls rest: a first look at once, and the decided plan when its job ends. */
export function useDesk(moves: Moves): Desk {
  const [base, setBase] = useState<PlanJson | null>(null);
  const [estimate, setEstimate] = useState<Estimate | null>(null);
  const [job, setJob] = useState<Job | null>(null);
  const [plan, setPlan] = useState<PlanJson | null>(null);
  const [request, setRequest] = useState<Asked | null>(null);
  const [decided, setDecided] = useState<Moves | null>(null);
  const [refused, setRefused] = useState<Refused | null>(null);
  const [waiting, setWaiting] = useState<number | null>(null);
  const [round, setRound] = useState(0);
  const running = useRef<Job | null>(null);
  const asking = useRef<AbortController | null>(null);
  const basis = useRef<{ of: string | null; plan: PlanJson } | null>(null);

  useEffect(() => {
    const gone = new AbortController();
    asking.current = gone;
    let timer = 0;
    const failed = (error: unknown) => {
      if (gone.signal.aborted) return;
      const known = error instanceof Refused ? error : new Refused(0, "The page failed", String(error));
      setRefused(known);
      setJob(null);
      if (known.again_s === null) return;
      // Busy is no error: it is shown, and retried when the service says so.
      let left = Math.max(1, known.again_s);
      setWaiting(left);
      const tick = () => {
        left -= 1;
        setWaiting(left > 0 ? left : null);
        if (left > 0) timer = window.setTimeout(tick, 1000);
        else setRound((each) => each + 1);
      };
      timer = window.setTimeout(tick, 1000);
    };
    const ask = async () => {
      setRefused(null);
      setWaiting(null);
      let known = basis.current !== null && basis.current.of === moves.plan ? basis.current.plan : null;
      if (known === null && restsOnPlan(moves)) {
        // Half the length is half of something: a link that says so needs the plan as it was.
        known = await answered<PlanJson>("plan", { plan: moves.plan, quick: true }, gone.signal);
        basis.current = { of: moves.plan, plan: known };
        setBase(known);
      }
      const now = asked(moves, known);
      setRequest(now);
      const found = await post<{ estimate: Estimate; decided: Job }>("/v1/evaluate", { ...now, session: SESSION }, gone.signal);
      setEstimate(found.estimate);
      setJob(found.decided);
      running.current = found.decided;
      const made = await ended<PlanJson>(found.decided, gone.signal, setJob);
      running.current = null;
      setPlan(made);
      setDecided(moves);
      setJob(null);
      if (known === null && Object.keys(now.set).length === 0) {
        basis.current = { of: moves.plan, plan: made };
        setBase(made);
      }
    };
    timer = window.setTimeout(() => void ask().catch(failed), STILL_MS);
    return () => {
      gone.abort();
      clearTimeout(timer);
    };
  }, [moves, round]);

  const stop = () => {
    const held = running.current;
    if (held === null) return;
    running.current = null;
    // Nobody waits for it any more, so that its end is no news.
    asking.current?.abort();
    void cancel(held).catch(() => undefined);
    setRefused(new Refused(410, "Cancelled", "The estimate stands; the plan was not decided."));
    setJob(null);
  };
  const again = () => setRound((each) => each + 1);
  return { request, estimate, job, plan, base, isDecided: decided === moves, refused, waiting_s: waiting, stop, again };
}
