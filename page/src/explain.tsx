import { useEffect, useRef } from "preact/hooks";
import type { Plan, Quantity } from "./document";
import { sign } from "./evidence";
import { show } from "./words";

/** How deep a branch opens by itself; what is deeper opens on a click. */
const OPEN_LEVELS = 2;

/** The number of this name, walked back to its sources, as `ullage plan --explain NAME` prints it. */
export function Explanation({ plan, name, close }: { plan: Plan; name: string | null; close: () => void }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (name !== null && box.current && !box.current.open) box.current.showModal();
    if (name === null) box.current?.close();
  }, [name]);
  const root = name === null ? undefined : plan.known(name);
  return (
    <dialog
      ref={box}
      class="explanation"
      aria-labelledby="explained"
      onClose={close}
      onClick={(event) => event.target === box.current && close()}
    >
      {name !== null && (
        <div class="inside">
          <header>
            <h2 id="explained">{name}</h2>
            <button type="button" class="close" onClick={close} aria-label="Close the explanation">
              ×
            </button>
          </header>
          {root ? <Branch plan={plan} of={root} level={0} met={new Set()} /> : <p>The plan lists no such number.</p>}
          <p class="command">
            <code>ullage plan --explain {JSON.stringify(name)}</code>
          </p>
        </div>
      )}
    </dialog>
  );
}

function Branch({ plan, of, level, met }: { plan: Plan; of: Quantity; level: number; met: Set<string> }) {
  const again = met.has(of.name);
  met.add(of.name);
  const inputs = (of.inputs ?? []).map((each) => plan.known(each)).filter((each) => each !== undefined);
  const sources = of.sources ?? [];
  const line = (
    <>
      <span class="name">{of.name}</span> = <strong>{show(of.value, of.unit)}</strong>{" "}
      <span class={`badge ${of.evidence}`}>
        {sign(of.evidence)} {of.evidence}
      </span>
      {of.low !== undefined && of.high !== undefined && of.low !== of.high && (
        <span class="range">
          {" "}
          from {show(of.low, of.unit)} to {show(of.high, of.unit)}
        </span>
      )}
      {of.is_stale && <span class="stale"> past its maximum age</span>}
      {of.formula && <span class="formula">{of.formula}</span>}
      {again && (inputs.length > 0 || sources.length > 0) && <span class="again">explained above</span>}
    </>
  );
  if (again || (inputs.length === 0 && sources.length === 0)) return <div class="leaf">{line}</div>;
  return (
    <details open={level < OPEN_LEVELS} class="branch">
      <summary>{line}</summary>
      <ul>
        {inputs.map((each) => (
          <li key={each.name}>
            <Branch plan={plan} of={each} level={level + 1} met={met} />
          </li>
        ))}
        {sources.map((each) => (
          <li key={`${each.what}${each.where}`} class="source">
            source: {each.what}; <Place where={each.where} />; {each.date}
          </li>
        ))}
      </ul>
    </details>
  );
}

/** Where a source is: a link only where it is an address of the web, whatever else the text may say. */
export function Place({ where }: { where: string }) {
  return /^https?:\/\//.test(where) ? (
    <a href={where} rel="noreferrer noopener" target="_blank">
      {where}
    </a>
  ) : (
    <>{where}</>
  );
}
