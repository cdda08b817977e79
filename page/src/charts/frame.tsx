import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** Colours that people who see no red or no green tell apart too (Okabe and Ito), in style.css by these names. */
export const colour = (at: number) => `var(--series-${(at % 8) + 1})`;

/** Between the margins of an A4 page, in CSS pixels. */
export const PAPER_WIDTH = 680;

/** Room for a label of this text, at the size that charts write in. */
export const textWidth = (text: string) => text.length * 7.1;

export const cut = (text: string, px: number) => {
  const most = Math.floor(px / 7.1);
  return text.length <= most ? text : most < 2 ? "" : `${text.slice(0, most - 1)}…`;
};

/** A drawing as wide as its place. Marks inside it that explain themselves make it a group, else it is one picture. */
export function Drawing({
  label,
  height,
  marks = false,
  children,
}: {
  label: string;
  height: (width: number) => number;
  marks?: boolean;
  children: (width: number) => ComponentChildren;
}) {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(720);
  useEffect(() => {
    const node = place.current;
    if (!node) return;
    const seen = () => setWidth(Math.max(240, Math.floor(node.getBoundingClientRect().width)));
    seen();
    const watch = new ResizeObserver(seen);
    watch.observe(node);
    // Drawn for the paper's width, so that its words keep their size.
    const paper = () => setWidth(PAPER_WIDTH);
    addEventListener("beforeprint", paper);
    addEventListener("afterprint", seen);
    return () => {
      watch.disconnect();
      removeEventListener("beforeprint", paper);
      removeEventListener("afterprint", seen);
    };
  }, []);
  const tall = height(width);
  return (
    <div ref={place} class="drawing">
      <svg width={width} height={tall} viewBox={`0 0 ${width} ${tall}`} role={marks ? "group" : "img"} aria-label={label}>
        {children(width)}
      </svg>
    </div>
  );
}

/** A mark that can be reached by keyboard and explains its number; without a name it is only a shape with a tip. */
export function Mark({
  name,
  label,
  explain,
  children,
}: {
  name?: string | null;
  label: string;
  explain: (name: string) => void;
  children: ComponentChildren;
}) {
  if (!name)
    return (
      <g>
        <title>{label}</title>
        {children}
      </g>
    );
  return (
    <g
      class="mark"
      role="button"
      tabindex={0}
      data-name={name}
      onClick={() => explain(name)}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        explain(name);
      }}
    >
      <title>{`${label}: explain ${name}`}</title>
      {children}
    </g>
  );
}

/** Round values for an axis from 0 to a little more than `most`. */
export function ticks(most: number, count = 4): number[] {
  if (!(most > 0) || !Number.isFinite(most)) return [0, 1];
  const raw = most / count;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = size * ([1, 2, 2.5, 5, 10].find((each) => each * size >= raw) ?? 10);
  const found = [];
  for (let at = 0; at < most + step * 0.999; at += step) found.push(Number(at.toPrecision(6)));
  return found;
}
