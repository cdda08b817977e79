import { useTold } from "../figure";
import { colour, cut, Drawing, Mark, textWidth } from "./frame";

export interface Part {
  label: string;
  value: number;
  shown: string;
  name?: string | null;
  /** The place of its colour; parts of one label have one colour in every bar. */
  tint: number;
}

export interface Bar {
  label: string;
  parts: Part[];
  remark?: string;
}

const ROW = 40;

/** Bars of parts side by side on one scale, with what each colour stands for below. */
export function Stacked({ bars, label, whole }: { bars: Bar[]; label: string; whole?: number }) {
  const { explain } = useTold();
  const most = whole ?? Math.max(...bars.map((each) => each.parts.reduce((sum, one) => sum + one.value, 0)), 1e-12);
  const legend = new Map<string, number>();
  for (const bar of bars) for (const part of bar.parts) if (part.value > 0) legend.set(part.label, part.tint);
  const named = bars.some((each) => each.label !== "");
  return (
    <>
      <Drawing label={label} marks height={() => bars.length * ROW + 2}>
        {(width) => {
          const names = named
            ? Math.min(Math.max(...bars.map((each) => textWidth(each.label))) + 12, width < 560 ? 150 : 260)
            : 0;
          const remarks = Math.max(...bars.map((each) => textWidth(each.remark ?? "")));
          const room = width - names - (remarks ? remarks + 10 : 0);
          return bars.map((bar, row) => {
            let at = names;
            return (
              <g key={row}>
                {named && (
                  <text x={names - 8} y={row * ROW + 25} text-anchor="end">
                    {cut(bar.label, names - 8)}
                  </text>
                )}
                {bar.parts.map((part) => {
                  const wide = (part.value / most) * room;
                  const from = at;
                  at += wide;
                  if (part.value <= 0) return null;
                  const fits = wide > textWidth(part.shown) + 8;
                  return (
                    <Mark key={part.label} name={part.name} explain={explain} label={`${part.label} ${part.shown}`}>
                      <rect
                        class="part"
                        style={{ fill: colour(part.tint) }}
                        x={from}
                        y={row * ROW + 5}
                        width={Math.max(1, wide - 1)}
                        height={ROW - 10}
                      />
                      {fits && (
                        <text class={`on on-${(part.tint % 8) + 1}`} x={from + wide / 2} y={row * ROW + 25} text-anchor="middle">
                          {part.shown}
                        </text>
                      )}
                    </Mark>
                  );
                })}
                {bar.remark && (
                  <text class="faint" x={at + 6} y={row * ROW + 25}>
                    {bar.remark}
                  </text>
                )}
              </g>
            );
          });
        }}
      </Drawing>
      <Legend entries={[...legend].map(([name, tint]) => ({ name, tint }))} />
    </>
  );
}

/** What each colour stands for, drawn as it is drawn in the chart: an area, a line or a ring. */
export function Legend({ entries }: { entries: { name: string; tint: number; shown?: string; line?: boolean; dash?: number[]; dot?: boolean }[] }) {
  return (
    <ul class="legend">
      {entries.map((each) => (
        <li key={each.name}>
          <svg class="swatch" width={each.line ? 20 : 12} height="12" aria-hidden="true">
            {each.line ? (
              <line x1="0" x2="20" y1="6" y2="6" style={{ stroke: colour(each.tint), strokeWidth: 3, strokeDasharray: each.dash?.join(" ") }} />
            ) : each.dot ? (
              <circle cx="6" cy="6" r="4.5" style={{ fill: "none", stroke: colour(each.tint), strokeWidth: 2.5 }} />
            ) : (
              <rect width="12" height="12" rx="2" style={{ fill: colour(each.tint) }} />
            )}
          </svg>
          {each.name}
          {each.shown && <span class="faint"> {each.shown}</span>}
        </li>
      ))}
    </ul>
  );
}
