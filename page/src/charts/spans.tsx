import { useTold } from "../figure";
import { colour, cut, Drawing, Mark, textWidth, ticks } from "./frame";

export interface Span {
  label: string;
  /** Drawn as a bar from 0 where there is no `low` alone, else as a dot in its range. */
  value: number | null;
  low?: number | null;
  high?: number | null;
  shown: string;
  name?: string | null;
  tint?: number;
  /** A row that begins a group stands a little apart. */
  first?: boolean;
}

const ROW = 26;
const FOOT = 26;
/** Words above a bar, where there is no room beside it. */
const WORDS = 17;

/** Bars or dots by row on one axis, with a range each, and lines at values that matter. */
export function Spans({
  rows,
  label,
  format,
  kind = "bar",
  from = 0,
  most,
  rules = [],
}: {
  rows: Span[];
  label: string;
  format: (value: number) => string;
  kind?: "bar" | "dot";
  from?: number;
  most?: number;
  rules?: { at: number; label: string }[];
}) {
  const { explain } = useTold();
  const highest = most ?? Math.max(...rows.map((each) => Math.max(each.high ?? 0, each.value ?? 0)), ...rules.map((each) => each.at), 1e-12);
  // Fewer marks on a phone: their words would run into each other.
  const marksFor = (room: number) => ticks(highest - from, room < 260 ? 2 : 4).map((each) => each + from);
  const longest = Math.max(...rows.map((each) => textWidth(each.label))) + 14;
  const values = Math.max(...rows.map((each) => textWidth(each.shown))) + 10;
  const isAbove = (width: number) => width - longest - values < 0.55 * width;
  const placed = (width: number) => {
    const offsets: number[] = [];
    let tall = rules.length ? 18 : 4;
    for (const each of rows) {
      if (each.first && offsets.length) tall += 10;
      offsets.push(tall);
      tall += ROW + (isAbove(width) && each.label ? WORDS : 0);
    }
    return { offsets, tall };
  };
  return (
    <Drawing label={label} marks={rows.some((each) => each.name)} height={(width) => placed(width).tall + FOOT}>
      {(width) => {
        const above = isAbove(width);
        const { offsets, tall } = placed(width);
        const names = above ? 14 : longest;
        const room = width - names - (above ? 21 : values);
        const marks = marksFor(room);
        const end = most ?? marks[marks.length - 1]!;
        const x = (value: number) => names + ((Math.min(Math.max(value, from), end) - from) / (end - from)) * room;
        return (
          <>
            {marks
              .filter((each) => each <= end + 1e-9)
              .map((each) => (
                <g key={each}>
                  <line class="grid" x1={x(each)} x2={x(each)} y1={rules.length ? 16 : 2} y2={tall} />
                  <text class="axis" x={x(each)} y={tall + 16} text-anchor="middle">
                    {format(each)}
                  </text>
                </g>
              ))}
            {rules.map((each) => {
              const near = x(each.at) > names + room * 0.6;
              return (
                <g key={each.label}>
                  <line class="rule" x1={x(each.at)} x2={x(each.at)} y1={14} y2={tall} />
                  <text class="rule-text" x={x(each.at) + (near ? -4 : 4)} y={11} text-anchor={near ? "end" : "start"}>
                    {each.label}
                  </text>
                </g>
              );
            })}
            {rows.map((each, at) => {
              const top = offsets[at]!;
              const y = top + (above && each.label ? WORDS : 0);
              // A row without a word of its own, the second of a pair, has its value at the end of its bar.
              const isBare = above && !each.label;
              const past = isBare ? x(Math.max(each.value ?? from, each.high ?? from)) + 6 : width;
              return (
                <Mark key={at} name={each.name} explain={explain} label={`${each.label} ${each.shown}`}>
                  <rect class="hit" x={0} y={top} width={width} height={y - top + ROW} />
                  <text class="haloed" x={above ? 0 : names - 8} y={top + 17} text-anchor={above ? "start" : "end"}>
                    {cut(each.label, above ? width - values : names)}
                  </text>
                  {each.value !== null && kind === "bar" && (
                    <rect
                      class="part"
                      style={{ fill: colour(each.tint ?? 0) }}
                      x={x(from)}
                      y={y + 5}
                      width={Math.max(1, x(each.value) - x(from))}
                      height={ROW - 10}
                    />
                  )}
                  {each.low != null && each.high != null && (
                    <line class="range-line" x1={x(each.low)} x2={x(each.high)} y1={y + ROW / 2} y2={y + ROW / 2} />
                  )}
                  {each.value !== null && kind === "dot" && (
                    <circle style={{ fill: colour(each.tint ?? 0) }} cx={x(each.value)} cy={y + ROW / 2} r={5} />
                  )}
                  <text class="haloed" x={past} y={(isBare ? y : top) + 17} text-anchor={isBare ? "start" : "end"}>
                    {each.shown}
                  </text>
                </Mark>
              );
            })}
          </>
        );
      }}
    </Drawing>
  );
}
