import type { ComponentChildren } from "preact";
import type { PlanJson } from "../document";
import { part, percent } from "../words";
import type { Moves } from "./moves";

const STORAGES = ["page-cache", "local-nvme", "shared-filesystem", "network-disk", "object-store", "streamed"];

interface Props {
  moves: Moves;
  move: (changed: Partial<Moves>) => void;
  from: PlanJson | null;
  devices: string[];
}

/** A slider with its value in words; by keyboard each step is one press. */
function Slider(props: {
  id: string;
  label: string;
  value: number;
  min: number;
  max: number;
  step: number;
  shown: string;
  set: (value: number) => void;
}) {
  return (
    <div class="control">
      <label for={props.id}>{props.label}</label>
      <output for={props.id}>{props.shown}</output>
      <input
        id={props.id}
        type="range"
        min={props.min}
        max={props.max}
        step={props.step}
        value={props.value}
        aria-valuetext={props.shown}
        onInput={(event) => props.set(Number(event.currentTarget.value))}
      />
    </div>
  );
}

/** A factor on a scale of doublings, so that half and double are as far from as it is. */
function Factor({ id, label, value, most, set }: { id: string; label: string; value: number; most: number; set: (value: number) => void }) {
  const far = Math.log2(most);
  const rounded = (power: number) => Number((2 ** power).toPrecision(2));
  return (
    <Slider
      id={id}
      label={label}
      value={Math.log2(value)}
      min={-far}
      max={far}
      step={0.25}
      shown={value === 1 ? "as planned" : `× ${value}`}
      set={(power) => set(rounded(power))}
    />
  );
}

function Choice({ id, label, value, options, set }: { id: string; label: string; value: string | null; options: string[]; set: (value: string | null) => void }) {
  return (
    <div class="control">
      <label for={id}>{label}</label>
      <select id={id} value={value ?? ""} onChange={(event) => set(event.currentTarget.value || null)}>
        <option value="">as planned</option>
        {options.map((each) => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </div>
  );
}

/** A share that is the plan's own until it is moved. */
function Share(props: { id: string; label: string; value: number | null; min: number; max: number; step: number; own: number; isKnown: boolean; set: (value: number) => void }) {
  return (
    <Slider
      id={props.id}
      label={props.label}
      value={props.value ?? props.own}
      min={props.min}
      max={props.max}
      step={props.step}
      shown={props.value !== null ? percent(props.value) : props.isKnown ? `${part(props.own)} as planned` : "as planned"}
      set={props.set}
    />
  );
}

export function Controls({ moves, move, from, devices }: Props) {
  const own = (name: string, otherwise: number) => {
    const found = (from?.assumptions[name] ?? from?.figures[name])?.value;
    return typeof found === "number" ? found : otherwise;
  };
  // Classes differ; one number is shown where all of them have it.
  const shares = (from?.classes ?? []).map((each) => own(`demand.${each.name}.cached_fraction`, 0.5));
  const cached = shares[0] ?? 0.5;
  const single = (from?.summary.pools.length ?? 1) === 1;
  return (
    <fieldset class="controls">
      <legend>What if</legend>
      <Factor id="traffic" label="Traffic" value={moves.traffic} most={4} set={(traffic) => move({ traffic })} />
      <Factor id="output" label="Output length" value={moves.output} most={4} set={(output) => move({ output })} />
      <Factor id="prompt" label="Prompt length" value={moves.prompt} most={4} set={(prompt) => move({ prompt })} />
      <Share id="cached" label="Cached share" value={moves.cached} min={0} max={0.95} step={0.05} own={cached} isKnown={new Set(shares).size === 1} set={(value) => move({ cached: value })} />
      <Factor id="slo" label="SLO limits" value={moves.slo} most={4} set={(slo) => move({ slo })} />
      <Share id="shortfall" label="Shortfall risk" value={moves.shortfall} min={0.005} max={0.5} step={0.005} own={own("policy.shortfall", 0.05)} isKnown={from !== null} set={(shortfall) => move({ shortfall })} />
      <Slider id="discount" label="Discount on prices" value={moves.discount} min={0} max={0.7} step={0.05} shown={moves.discount ? percent(moves.discount) : "list price"} set={(discount) => move({ discount })} />
      {single && <Choice id="device" label="Device" value={moves.device} options={devices} set={(device) => move({ device })} />}
      {single && <Choice id="storage" label="Weights come from" value={moves.storage} options={STORAGES} set={(storage) => move({ storage })} />}
      <div class="control">
        <label class="check">
          <input type="checkbox" checked={moves.risk} onChange={(event) => move({ risk: event.currentTarget.checked })} />
          <span>Study the risk too (takes twice as long)</span>
        </label>
      </div>
    </fieldset>
  );
}

export const Panel = ({ title, children, open = false }: { title: string; children: ComponentChildren; open?: boolean }) => (
  <details class="panel" open={open}>
    <summary>{title}</summary>
    {children}
  </details>
);
