import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

/** Colours that people who see no red or no green tell apart too (Okabe and Ito), in style.css by these names. */
export const colour = (at: number) => `var(--series-${(at % 8) + 1})`;

/** Between the margins of an A4 page, in CSS pixels. */
export const PAPER_WIDTH = 680;

let pen: CanvasRenderingContext2D | null = null;

/** Room for a label of this text, at the size that charts write in: fonts differ by a quarter from machine to machine. */
export function textWidth(text: string): number {
  if (!pen) {
    pen = document.createElement("canvas").getContext("2d")!;
    pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  }
  return pen.measureText(text).width;
}

export function cut(text: string, px: number): string {
  if (textWidth(text) <= px) return text;
  let shown = text;
  while (shown.length > 1 && textWidth(`${shown}…`) > px) shown = shown.slice(0, -1);
  return shown.length > 1 ? `${shown.trimEnd()}…` : "";
}

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
