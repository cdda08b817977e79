import { useTold } from "../figure";
import { Drawing, Mark, textWidth } from "./frame";

export interface Tile {
  label: string;
  value: number;
  shown: string;
  name?: string | null;
  tint: number;
}

interface Placed extends Tile {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Tiles as near to squares as their order of size allows (Bruls, Huizing, van Wijk, 2000). */
export function squarified(tiles: Tile[], width: number, height: number): Placed[] {
  const total = tiles.reduce((sum, each) => sum + each.value, 0);
  const left = [...tiles].filter((each) => each.value > 0).sort((a, b) => b.value - a.value);
  const placed: Placed[] = [];
  let [x, y, w, h] = [0, 0, width, height];
  const scale = (width * height) / total;
  while (left.length) {
    const side = Math.min(w, h);
    const row: Tile[] = [];
    let area = 0;
    const worst = (sum: number, some: Tile[]) =>
      Math.max(...some.map((each) => Math.max((side * side * each.value * scale) / (sum * sum), (sum * sum) / (side * side * each.value * scale))));
    while (left.length) {
      const next = left[0]!;
      const more = area + next.value * scale;
      if (row.length && worst(more, [...row, next]) > worst(area, row)) break;
      row.push(left.shift()!);
      area = more;
    }
    const depth = area / side;
    let at = 0;
    for (const each of row) {
      const long = (each.value * scale) / depth;
      placed.push(w >= h ? { ...each, x, y: y + at, w: depth, h: long } : { ...each, x: x + at, y, w: long, h: depth });
      at += long;
    }
    if (w >= h) [x, w] = [x + depth, w - depth];
    else [y, h] = [y + depth, h - depth];
  }
  return placed;
}

/** The label in as many lines as it takes, then the value; nothing of either where it does not fit whole. */
function written({ label, shown, w, h }: Placed): string[] {
  const fits = (text: string, wider = 1) => textWidth(text) * wider <= w - 12;
  const lines: string[] = [];
  for (const word of label.split(" ")) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && fits(longer)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const whole = lines.every((each) => fits(each)) && h > 6 + 18 * lines.length ? lines : [];
  return whole.length && fits(shown, 1.1) && h > 24 + 18 * whole.length ? [...whole, shown] : whole;
}

export function Treemap({ tiles, label }: { tiles: Tile[]; label: string }) {
  const { explain } = useTold();
  const tall = (width: number) => Math.round(Math.min(340, Math.max(220, width * 0.42)));
  return (
    <Drawing label={label} marks height={tall}>
      {(width) =>
        squarified(tiles, width, tall(width)).map((each) => (
          <Mark key={each.label} name={each.name} explain={explain} label={`${each.label} ${each.shown}`}>
            <rect
              class="part"
              style={{ fill: `var(--series-${each.tint + 1})` }}
              x={each.x + 1}
              y={each.y + 1}
              width={Math.max(0.5, each.w - 2)}
              height={Math.max(0.5, each.h - 2)}
            />
            {written(each).map((line, at) => (
              <text key={at} class={`on on-${each.tint + 1} ${line === each.shown ? "strong" : ""}`} x={each.x + 8} y={each.y + 19 + 18 * at}>
                {line}
              </text>
            ))}
          </Mark>
        ))
      }
    </Drawing>
  );
}
