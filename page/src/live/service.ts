/** The service by HTTP: answers, problems as RFC 9457 tells them, and a job's progress as server-sent events. */

export interface Job {
  id: string;
  state: string;
  stage: string;
  fraction: number;
  status: number | null;
  result: string;
  events: string;
}

export interface PoolEstimate {
  pool: string;
  steady_replicas: number;
  low_replicas: number;
  high_replicas: number;
  reserve_replicas: number;
  total_replicas: number;
  devices: number;
  device: string;
  nodes: number;
  machine: string;
  usd: number | null;
  low_usd: number | null;
  high_usd: number | null;
}

export interface Estimate {
  service: string;
  planning_rps: number;
  total_replicas: number;
  devices: number;
  usd: number | null;
  pools: PoolEstimate[];
  pending: string[];
}

export interface Asked {
  plan: string | null;
  set: Record<string, unknown>;
  traffic: string | null;
  quick: boolean;
}

/** What the service refused, in its own text; `again_s` where it is only busy. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    detail: string,
    readonly again_s: number | null = null,
    readonly document: unknown = null,
  ) {
    super(detail);
  }
}

const TOKEN = "ullage-token";

export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set: (value: string) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
};

function headers(more: Record<string, string> = {}): Record<string, string> {
  const held = token.get();
  return held ? { ...more, authorization: `Bearer ${held}` } : more;
}

async function refused(answer: Response): Promise<Refused> {
  const said = (await answer.json().catch(() => ({}))) as { title?: string; detail?: string };
  const again = answer.status === 429 || answer.status === 503 ? Number(answer.headers.get("retry-after") ?? 2) : null;
  return new Refused(answer.status, said.title ?? `HTTP ${answer.status}`, said.detail ?? answer.statusText, again, said);
}

async function send(path: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused(0, "The service does not answer", "It may have been stopped, or the network is gone.", 5);
  }
  if (!answer.ok) throw await refused(answer);
  return answer;
}

export async function post<Answer>(path: string, body: unknown, signal?: AbortSignal): Promise<Answer> {
  const init = { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body), signal };
  return (await (await send(path, init)).json()) as Answer;
}

export async function cancel(job: Job): Promise<void> {
  await send(`/v1/jobs/${job.id}`, { method: "DELETE", headers: headers() });
}

export async function upload(file: File): Promise<string> {
  const path = `/v1/uploads?name=${encodeURIComponent(file.name.slice(0, 200))}`;
  const init = { method: "POST", headers: headers({ "content-type": "application/octet-stream" }), body: file };
  return ((await (await send(path, init)).json()) as { upload: string }).upload;
}

/** The job at every change until it ends; an EventSource could not send a token. */
async function* watch(job: Job, signal: AbortSignal): AsyncGenerator<Job> {
  const answer = await send(job.events, { headers: headers({ accept: "text/event-stream" }), signal });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop() ?? "";
    for (const part of parts) {
      const data = part.split("\n").find((line) => line.startsWith("data: "));
      if (data) yield JSON.parse(data.slice(6)) as Job;
    }
  }
}

/** The answer of a job, and its progress until then, by events or, where they are cut or too many, by asking again. */
export async function ended<Answer>(job: Job, signal: AbortSignal, heard: (job: Job) => void): Promise<Answer> {
  try {
    for await (const each of watch(job, signal)) heard(each);
  } catch (error) {
    if (signal.aborted) throw error;
  }
  return (await (await settled(job, signal, heard)).json()) as Answer;
}

/** The answer of a job, asked for until there is one. */
async function settled(job: Job, signal: AbortSignal | undefined, heard: (job: Job) => void): Promise<Response> {
  for (;;) {
    const answer = await send(`${job.result}?wait=25`, { headers: headers(), signal });
    if (answer.status !== 202) return answer;
    heard((await answer.json()) as Job);
  }
}

/** The answer of a verb that may take a while: itself, or its job's. */
export async function answered<Answer>(verb: string, body: unknown, signal?: AbortSignal): Promise<Answer> {
  const init = { method: "POST", headers: headers({ "content-type": "application/json" }), body: JSON.stringify(body), signal };
  const answer = await send(`/v1/${verb}`, init);
  if (answer.status !== 202) return (await answer.json()) as Answer;
  const job = (await answer.json()) as Job;
  try {
    return (await (await settled(job, signal, () => undefined)).json()) as Answer;
  } catch (error) {
    // Nobody waits for it any more.
    if (signal?.aborted) void cancel(job).catch(() => undefined);
    throw error;
  }
}
