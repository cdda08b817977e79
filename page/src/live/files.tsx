import { useState } from "preact/hooks";
import { Panel } from "./controls";
import { answered, Refused, upload } from "./service";

const KINDS: Record<string, { said: string; key: string; verb: string | null; body: (name: string) => unknown }> = {
  trace: { said: "a request log", key: "workload.trace", verb: "profile", body: (name) => ({ traces: [name] }) },
  loadtest: { said: "a load test", key: "evidence.load_tests", verb: "calibrate", body: (name) => ({ files: [name], inspect: true }) },
  engine: { said: "an engine's log", key: "evidence.engine_logs", verb: null, body: () => null },
};

interface Read {
  kind: string;
  file: string;
  name: string;
  anomalies: string[];
  refused: string | null;
}

/** Every anomaly that a reader's answer holds, wherever it stands. */
export function anomaliesIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(anomaliesIn);
  if (value === null || typeof value !== "object") return [];
  return Object.entries(value).flatMap(([key, each]) => {
    if (key !== "anomalies" || !Array.isArray(each)) return anomaliesIn(each);
    return each.map((one) => (typeof one === "string" ? one : String(one?.sentence ?? one?.text ?? one?.detail ?? JSON.stringify(one))));
  });
}

export function Files({ use, inUse }: { use: (key: string, name: string) => void; inUse: Record<string, string[]> }) {
  const [kind, setKind] = useState("trace");
  const [read, setRead] = useState<Read[]>([]);
  const [busy, setBusy] = useState("");
  const send = async (file: File) => {
    const of = KINDS[kind]!;
    setBusy(`Reading ${file.name}`);
    const found: Read = { kind, file: file.name, name: "", anomalies: [], refused: null };
    try {
      found.name = await upload(file);
      if (of.verb) found.anomalies = [...new Set(anomaliesIn(await answered(of.verb, of.body(found.name))))];
    } catch (error) {
      const said = error instanceof Refused ? `${error.title}: ${error.message}` : String(error);
      // The service knows the file by the name it gave it, people by their own.
      found.refused = found.name ? said.replaceAll(found.name, file.name) : said;
    }
    setBusy("");
    setRead((before) => [found, ...before]);
  };
  return (
    <Panel title="Your files">
      <div class="row">
        <label>
          This is{" "}
          <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
            {Object.entries(KINDS).map(([key, each]) => (
              <option key={key} value={key}>
                {each.said}
              </option>
            ))}
          </select>
        </label>
        <label>
          File{" "}
          <input
            type="file"
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              if (file) void send(file);
            }}
          />
        </label>
        <span role="status">{busy}</span>
      </div>
      <ul class="read">
        {read.map((each) => (
          <li key={each.name + each.file}>
            <strong>{each.file}</strong>
            {each.refused !== null ? (
              <p class="problem">{each.refused}</p>
            ) : (
              <>
                {each.anomalies.length ? (
                  <ul>
                    {each.anomalies.slice(0, 12).map((one) => (
                      <li key={one}>{one}</li>
                    ))}
                  </ul>
                ) : (
                  <p>{KINDS[each.kind]!.verb ? "Read without anomalies." : "Stored; it is read with the plan."}</p>
                )}
                {inUse[KINDS[each.kind]!.key]?.includes(each.name) ? (
                  <p class="faint">The plan uses it.</p>
                ) : (
                  <button type="button" onClick={() => use(KINDS[each.kind]!.key, each.name)}>
                    Plan with it
                  </button>
                )}
              </>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
