/** What the controls say, as the changes that `--set` and `--traffic` take; 1 and null leave the plan as it is. */
import type { PlanJson } from "../document";
import type { Asked } from "./service";

export interface Moves {
  plan: string | null;
  traffic: number;
  prompt: number;
  output: number;
  cached: number | null;
  slo: number;
  shortfall: number | null;
  device: string | null;
  discount: number;
  storage: string | null;
  risk: boolean;
  files: Record<string, string[]>;
}

export const STILL: Moves = {
  plan: null,
  traffic: 1,
  prompt: 1,
  output: 1,
  cached: null,
  slo: 1,
  shortfall: null,
  device: null,
  discount: 0,
  storage: null,
  risk: false,
  files: {},
};

const share = (value: number) => `${Number((100 * value).toPrecision(4))}%`;
const duration = (value: number) => `${Number((value * 1000).toPrecision(6))}ms`;

/** Whether the controls say something about the plan's own lengths, classes or prices. */
export const restsOnPlan = (moves: Moves) =>
  moves.prompt !== 1 || moves.output !== 1 || moves.cached !== null || moves.slo !== 1 || moves.discount > 0;

/** The request; lengths and SLOs are those of the plan `from` which the controls were moved. */
export function asked(moves: Moves, from: PlanJson | null): Asked {
  const set: Record<string, unknown> = {};
  const number = (name: string) => {
    const found = (from?.figures[name] ?? from?.assumptions[name])?.value;
    return typeof found === "number" ? found : undefined;
  };
  for (const each of from?.classes ?? []) {
    const key = `workload.classes.${each.name}`;
    for (const side of ["prompt", "output"] as const) {
      if (moves[side] === 1) continue;
      const known = ["p50", "p95", "p99"].flatMap((which) => {
        const tokens = number(`demand.${each.name}.${side}_${which}`);
        return tokens === undefined ? [] : [[which, Math.max(1, Math.round(tokens * moves[side]))] as const];
      });
      if (known.length) set[`${key}.${side}`] = Object.fromEntries(known);
    }
    if (moves.cached !== null) set[`${key}.cached_fraction`] = share(moves.cached);
    if (moves.slo !== 1) for (const slo of each.slos) set[`${key}.slo.${slo.name}`] = duration(slo.limit_s * moves.slo);
  }
  if (moves.shortfall !== null) set["policy.shortfall"] = share(moves.shortfall);
  if (moves.device !== null) set["pool.device"] = moves.device;
  if (moves.storage !== null) set["pool.storage"] = moves.storage;
  const seller = from?.summary.prices.split(" ")[0];
  if (moves.discount > 0 && seller) set[`prices.discount.${seller}`] = share(moves.discount);
  for (const [key, names] of Object.entries(moves.files)) if (names.length) set[key] = names;
  return { plan: moves.plan, set, traffic: moves.traffic === 1 ? null : `x${moves.traffic}`, quick: !moves.risk };
}

/** The same on a command line. */
export function command(request: Asked): string {
  const quoted = (text: string) => (/^[\w.,:%=/{}+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);
  const parts = ["ullage plan"];
  if (request.plan !== null) parts.push("plan.yaml");
  if (request.traffic !== null) parts.push(`--traffic ${request.traffic}`);
  for (const [key, value] of Object.entries(request.set))
    parts.push(`--set ${quoted(`${key}=${typeof value === "string" ? value : JSON.stringify(value)}`)}`);
  if (request.quick) parts.push("--quick");
  return parts.join(" ");
}

/**
 * The controls in an address, so that a link shows the same. They stand behind its #, which a browser sends to nobody: a
 * plan file's text would be too long for a request, and would be written into the logs of every proxy.
 */
export function toAddress(moves: Moves, view: string): string {
  const moved = Object.entries(moves).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(STILL[key as keyof Moves]));
  if (!moved.length) return `${location.pathname}${view && `#${view}`}`;
  const bytes = new TextEncoder().encode(JSON.stringify(Object.fromEntries(moved)));
  const letters = Array.from(bytes, (each) => String.fromCharCode(each)).join("");
  const text = btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return `${location.pathname}#s=${text}${view && `&view=${view}`}`;
}

/** The view that an address names, by itself or beside the controls. */
export function viewOf(hash: string): string {
  const found = hash.includes("=") ? (new URLSearchParams(hash.slice(1)).get("view") ?? "") : hash.slice(1);
  return /^[a-z-]{1,40}$/.test(found) ? found : "";
}

export function fromAddress(hash: string): Moves {
  const text = new URLSearchParams(hash.slice(1)).get("s");
  if (text === null) return STILL;
  try {
    const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
    const found = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
    // A link is anybody's: only what has the type of a control is taken from it.
    const moved = Object.entries(found).filter(([key, value]) => key in STILL && fits(STILL[key as keyof Moves], value));
    return { ...STILL, ...Object.fromEntries(moved) };
  } catch {
    return STILL;
  }
}

const fits = (still: unknown, value: unknown) =>
  still === null ? ["string", "number"].includes(typeof value) || value === null : typeof still === typeof value && value !== null;
