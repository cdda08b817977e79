import { useTold } from "../figure";
import { cut, Drawing, Mark, textWidth } from "./frame";

export interface Fall {
  label: string;
  /** What the row adds, or the sum so far where `isSum`. */
  value: number;
  shown: string;
  remark?: string;
  name?: string | null;
  isSum?: boolean;
  tone?: "plain" | "evidence" | "reserve" | "rest";
}

const ROW = 30;

/** Rows that add up from the top to the sum at the bottom, each bar beginning where the one before it ended. */
export function Waterfall({ rows, label }: { rows: Fall[]; label: string }) {
  const { explain } = useTold();
  let sum = 0;
  const bars = rows.map((each) => {
    const from = each.isSum ? 0 : sum;
    sum = each.isSum ? each.value : sum + each.value;
    return { ...each, from: Math.min(from, sum), to: Math.max(from, sum), end: sum };
  });
  const most = Math.max(...bars.map((each) => each.to), 1e-12);
  return (
    <Drawing label={label} marks height={() => bars.length * ROW + 4}>
      {(width) => {
        const narrow = width < 560;
        const names = Math.min(Math.max(...bars.map((each) => textWidth(each.label) * (each.isSum ? 1.15 : 1))) + 14, narrow ? 170 : 260);
        const values = Math.max(...bars.map((each) => textWidth(each.shown))) + 10;
        const remarks = narrow ? 0 : Math.min(Math.max(0, ...bars.map((each) => textWidth(each.remark ?? ""))) + 12, width * 0.42);
        const room = Math.max(60, width - names - values - remarks);
        const x = (value: number) => names + (value / most) * room;
        return bars.map((each, at) => (
          <Mark key={at} name={each.name} explain={explain} label={`${each.label} ${each.shown} ${each.remark ?? ""}`}>
            <rect class="hit" x={0} y={at * ROW + 1} width={width} height={ROW - 2} />
            <text class={each.isSum ? "strong" : ""} x={names - 8} y={at * ROW + 19} text-anchor="end">
              {cut(each.label, names - 12)}
            </text>
            <rect
              class={`bar ${each.isSum ? "sum" : (each.tone ?? "plain")}`}
              x={x(each.from)}
              y={at * ROW + 5}
              width={Math.max(1.5, x(each.to) - x(each.from))}
              height={ROW - 10}
            />
            {at < bars.length - 1 && !bars[at + 1]!.isSum && (
              <line class="link" x1={x(each.end)} x2={x(each.end)} y1={at * ROW + ROW - 5} y2={at * ROW + ROW + 5} />
            )}
            <text class={each.isSum ? "strong" : ""} x={x(each.to) + 6} y={at * ROW + 19}>
              {each.shown}
            </text>
            {!narrow && each.remark && (
              <text class="faint" x={width} y={at * ROW + 19} text-anchor="end">
                {cut(each.remark, Math.max(remarks, width - x(each.to) - values - 20))}
              </text>
            )}
          </Mark>
        ));
      }}
    </Drawing>
  );
}
