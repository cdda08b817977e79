import { useTold } from "../figure";
import { brief, usd } from "../words";
import { Drawing, Mark } from "./frame";

/** A cell by its bins along and up, and its share of all. */
export type Cell = [number, number, number];

const [LEFT, TOP, FOOT, RIGHT] = [52, 20, 40, 12];
const DECADES = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000];

/** Two lengths against each other on logarithmic axes: darker is more requests, the cross is the median of each. */
export function Density({
  cells,
  binsPerOctave,
  range,
  middle,
  name,
  label,
  xLabel,
  yLabel,
}: {
  cells: Cell[];
  binsPerOctave: number;
  /** The lowest and highest bin along and up, so that several charts have one scale. */
  range: [[number, number], [number, number]];
  middle?: [number, number];
  name?: string | null;
  label: string;
  xLabel: string;
  yLabel: string;
}) {
  const { explain } = useTold();
  const most = Math.max(...cells.map((each) => each[2]), 1e-12);
  const [[west, east], [south, north]] = range;
  const tall = (width: number) => Math.round(Math.min(300, Math.max(220, width * 0.56)));
  const bin = (tokens: number) => binsPerOctave * Math.log2(tokens);
  const tokens = (at: number) => 2 ** (at / binsPerOctave);
  return (
    <Drawing label={label} marks={Boolean(name)} height={tall}>
      {(width) => {
        const height = tall(width);
        const x = (at: number) => LEFT + ((at - west) / (east + 1 - west)) * (width - LEFT - RIGHT);
        const y = (at: number) => height - FOOT - ((at - south) / (north + 1 - south)) * (height - FOOT - TOP);
        const inside = (at: number, from: number, to: number) => at >= from && at <= to + 1;
        return (
          <Mark name={name} explain={explain} label={label}>
            <rect class="hit" x={LEFT} y={TOP} width={width - LEFT - RIGHT} height={height - FOOT - TOP} />
            {DECADES.filter((each) => inside(bin(each), west, east)).map((each) => (
              <g key={each}>
                <line class="grid" x1={x(bin(each))} x2={x(bin(each))} y1={TOP} y2={height - FOOT} />
                <text class="axis" x={x(bin(each))} y={height - FOOT + 16} text-anchor="middle">
                  {usd(each)}
                </text>
              </g>
            ))}
            {DECADES.filter((each) => inside(bin(each), south, north)).map((each) => (
              <g key={each}>
                <line class="grid" x1={LEFT} x2={width - RIGHT} y1={y(bin(each))} y2={y(bin(each))} />
                <text class="axis" x={LEFT - 6} y={y(bin(each)) + 4} text-anchor="end">
                  {usd(each)}
                </text>
              </g>
            ))}
            {cells.map(([along, up, share]) => (
              <rect
                key={`${along} ${up}`}
                class="cell"
                x={x(along) + 0.5}
                y={y(up + 1) + 0.5}
                width={Math.max(0.5, x(along + 1) - x(along) - 1)}
                height={Math.max(0.5, y(up) - y(up + 1) - 1)}
                // The root, so that a tail of a hundredth of the requests is still seen.
                style={{ fillOpacity: String(Math.sqrt(share / most)) }}
              >
                <title>{`${xLabel} ${brief(Math.round(tokens(along)))} to ${brief(Math.round(tokens(along + 1)))}, ${yLabel} ${brief(Math.round(tokens(up)))} to ${brief(Math.round(tokens(up + 1)))}: ${brief(100 * share)} % of requests`}</title>
              </rect>
            ))}
            {middle && (
              <g>
                <line class="rule" x1={x(bin(middle[0]))} x2={x(bin(middle[0]))} y1={TOP} y2={height - FOOT} />
                <line class="rule" x1={LEFT} x2={width - RIGHT} y1={y(bin(middle[1]))} y2={y(bin(middle[1]))} />
                <text class="rule-text" x={x(bin(middle[0]))} y={TOP - 6} text-anchor={bin(middle[0]) > (west + east) / 2 ? "end" : "start"}>
                  {`median ${brief(Math.round(middle[0]))} in, ${brief(Math.round(middle[1]))} out`}
                </text>
              </g>
            )}
            <text class="axis" x={(LEFT + width - RIGHT) / 2} y={height - 6} text-anchor="middle">
              {xLabel}
            </text>
            <text class="axis" x={12} y={(TOP + height - FOOT) / 2} text-anchor="middle" transform={`rotate(-90 12 ${(TOP + height - FOOT) / 2})`}>
              {yLabel}
            </text>
          </Mark>
        );
      }}
    </Drawing>
  );
}
