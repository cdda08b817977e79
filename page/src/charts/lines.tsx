import { useEffect, useRef } from "preact/hooks";
import { PAPER_WIDTH } from "./frame";
import { Legend } from "./stacked";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Series {
  label: string;
  values: (number | null)[];
  tint: number;
  dash?: number[];
  step?: boolean;
  points?: boolean;
  width?: number;
}

export interface Band {
  low: (number | null)[];
  high: (number | null)[];
  tint: number;
}

export interface Rule {
  at: number;
  label: string;
  tint?: number;
  across?: boolean;
}

/** Single measurements beside the lines. */
export interface Dot {
  x: number;
  y: number;
  tint: number;
}

export interface LinesProps {
  x: number[];
  series: Series[];
  bands?: Band[];
  rules?: Rule[];
  dots?: Dot[];
  dotLabel?: string;
  shade?: { from: number; until?: number; label: string };
  xRange?: [number, number];
  xLabel: string;
  yLabel: string;
  format: (value: number) => string;
  formatX: (value: number) => string;
  log?: boolean;
  logX?: boolean;
  height?: number;
  label: string;
}

const style = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const tinted = (tint: number) => style(`--series-${(tint % 8) + 1}`);

/** Lines over one axis, with bands, a readout under the cursor, and lines at the values that matter. */
export function Lines(props: LinesProps) {
  const place = useRef<HTMLDivElement>(null);
  const read = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    const node = place.current;
    if (!node) return;
    let plot: uPlot | null = null;
    const draw = (width: number) => {
      plot?.destroy();
      plot = new uPlot(options(props, width, (text) => read.current && (read.current.textContent = text)), data(props), node);
      plot.root.querySelector("canvas")?.setAttribute("aria-hidden", "true");
    };
    const wide = () => Math.max(240, Math.floor(node.getBoundingClientRect().width));
    const fit = () => draw(matchMedia("print").matches ? Math.min(wide(), PAPER_WIDTH) : wide());
    fit();
    let last = wide();
    const watch = new ResizeObserver(() => {
      if (wide() === last) return;
      last = wide();
      fit();
    });
    watch.observe(node);
    // Canvas keeps the colours it was painted with, so another scheme or paper asks for another painting.
    const schemes = ["(prefers-color-scheme: dark)", "print"].map((each) => matchMedia(each));
    const paper = () => draw(Math.min(wide(), PAPER_WIDTH));
    schemes.forEach((each) => each.addEventListener("change", fit));
    addEventListener("beforeprint", paper);
    addEventListener("afterprint", fit);
    return () => {
      watch.disconnect();
      schemes.forEach((each) => each.removeEventListener("change", fit));
      removeEventListener("beforeprint", paper);
      removeEventListener("afterprint", fit);
      plot?.destroy();
    };
  }, [props]);
  return (
    <>
      <div class="plot">
        <div ref={place} class="lines" role="img" aria-label={props.label} />
        <p ref={read} class="readout" aria-hidden="true" />
      </div>
      <Legend
        entries={[
          ...props.series.map((each) => ({ name: each.label, tint: each.tint, line: true, dash: each.dash })),
          ...(props.dots?.length ? [{ name: props.dotLabel ?? "measured", tint: props.dots[0]!.tint, dot: true }] : []),
        ]}
      />
    </>
  );
}

function data({ x, series, bands = [] }: LinesProps): uPlot.AlignedData {
  return [x, ...series.map((each) => each.values), ...bands.flatMap((each) => [each.high, each.low])] as uPlot.AlignedData;
}

/** What stands under the cursor, as one line. */
function under(plot: uPlot, { x, series, format, formatX, xLabel }: LinesProps): string {
  const at = plot.cursor.idx;
  if (at == null || x[at] === undefined) return "";
  const said = series.map((each) => `${each.label} ${each.values[at] == null ? "–" : format(each.values[at]!)}`);
  return `${xLabel} ${formatX(x[at]!)}: ${said.join(", ")}`;
}

function options(props: LinesProps, width: number, readOut: (text: string) => void): uPlot.Options {
  const { series, bands = [], rules = [], dots = [], format, formatX } = props;
  const narrow = width < 520;
  const ink = style("--ink");
  const axis = {
    stroke: style("--faint"),
    grid: { stroke: style("--grid"), width: 1 },
    ticks: { stroke: style("--grid"), width: 1, size: 4 },
    font: "12px system-ui, sans-serif",
    labelFont: "12px system-ui, sans-serif",
  };
  const first = 1 + series.length;
  return {
    width,
    height: props.height ?? (narrow ? 240 : 290),
    // Words stand above the plot: the unit of the axis, and what a line across or down it means.
    padding: [26, 26, 0, 0],
    cursor: { y: false, points: { size: 7 } },
    scales: {
      x: { time: false, ...(props.logX ? { distr: 3 as const } : {}), ...(props.xRange ? { range: props.xRange } : {}) },
      y: props.log
        ? { distr: 3, range: logRange(props) }
        : { range: (_plot, _low, high) => [0, Math.max(high, ...across(rules), ...dots.map((each) => each.y)) * 1.08 || 1] },
    },
    axes: [
      {
        ...axis,
        label: props.xLabel,
        labelSize: 18,
        labelGap: 0,
        size: 26,
        values: (_plot, ticks) => ticks.map((each) => (each === null ? "" : formatX(each))),
        space: narrow ? 46 : 60,
        splits: props.logX ? (_plot, _axis, low, high) => logSplits(low, high, [1]) : undefined,
        filter: props.logX ? (_plot: uPlot, splits: number[]) => splits : undefined,
      },
      {
        ...axis,
        size: 60,
        values: (_plot, ticks) => ticks.map((each) => (each === null ? "" : format(each))),
        splits: props.log ? (_plot, _axis, low, high) => logSplits(low, high, [1, 2, 5]) : undefined,
        filter: props.log ? (_plot: uPlot, splits: number[]) => splits : undefined,
      },
    ],
    series: [
      { label: props.xLabel },
      ...series.map((each) => ({
        label: each.label,
        stroke: tinted(each.tint),
        width: each.width ?? 2,
        dash: each.dash,
        paths: each.step ? uPlot.paths.stepped?.({ align: 1 }) : undefined,
        points: { show: each.points ?? false, size: 5, fill: tinted(each.tint) },
      })),
      // The edges of bands are not lines of their own.
      ...bands.flatMap((each) => [0, 1].map(() => ({ label: "", stroke: tinted(each.tint), width: 0, points: { show: false } }))),
    ],
    bands: bands.map((each, at) => ({
      series: [first + 2 * at, first + 2 * at + 1] as [number, number],
      fill: `${tinted(each.tint)}38`,
    })),
    legend: { show: false },
    hooks: {
      drawClear: [
        (plot) => {
          if (!props.shade) return;
          const left = Math.max(plot.valToPos(props.shade.from, "x", true), plot.bbox.left);
          const end = plot.bbox.left + plot.bbox.width;
          const right = props.shade.until === undefined ? end : Math.min(plot.valToPos(props.shade.until, "x", true), end);
          if (left >= right) return;
          plot.ctx.fillStyle = style("--shade");
          plot.ctx.fillRect(left, plot.bbox.top, right - left, plot.bbox.height);
        },
      ],
      draw: [
        (plot) => {
          drawDots(plot, dots);
          drawRules(plot, props, ink);
        },
      ],
      setCursor: [(plot) => readOut(under(plot, props))],
    },
  };
}

const across = (rules: Rule[]) => rules.filter((each) => each.across).map((each) => each.at);

/** A logarithmic axis ends a little beyond what it shows, not at the next power of ten. */
function logRange({ series, bands = [], rules = [], dots = [] }: LinesProps): uPlot.Range.MinMax {
  const drawn = [...series.flatMap((each) => each.values), ...bands.flatMap((each) => [...each.low, ...each.high])];
  const all = [...drawn, ...across(rules), ...dots.map((each) => each.y)].filter((each) => each !== null && each > 0) as number[];
  return all.length ? [Math.min(...all) / 1.25, Math.max(...all) * 1.35] : [0.1, 1];
}

/** Rings, so that a line behind one is still seen. */
function drawDots(plot: uPlot, dots: Dot[]) {
  const ratio = devicePixelRatio || 1;
  const { ctx, bbox } = plot;
  ctx.save();
  for (const each of dots) {
    const [x, y] = [plot.valToPos(each.x, "x", true), plot.valToPos(each.y, "y", true)];
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.arc(x, y, 5 * ratio, 0, 2 * Math.PI);
    ctx.fillStyle = style("--paper");
    ctx.fill();
    ctx.lineWidth = 2.5 * ratio;
    ctx.strokeStyle = tinted(each.tint);
    ctx.stroke();
  }
  ctx.restore();
}

/** On a logarithmic axis these digits of each decade have a line and a word. */
function logSplits(low: number, high: number, digits: number[]): number[] {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
    for (const each of digits) {
      const at = Number((each * 10 ** power).toPrecision(3));
      if (at >= low && at <= high) found.push(at);
    }
  return found;
}

/** The unit of the axis, and lines with their words; no word stands on another, and a line behind one leaves it readable. */
function drawRules(plot: uPlot, { rules = [], shade, yLabel }: LinesProps, ink: string) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio || 1;
  const paper = style("--paper");
  ctx.save();
  ctx.font = `${12 * ratio}px system-ui, sans-serif`;
  ctx.textBaseline = "bottom";
  ctx.textAlign = "left";
  const write = (text: string, x: number, y: number, fill: string) => {
    ctx.save();
    ctx.setLineDash([]);
    ctx.lineJoin = "round";
    ctx.lineWidth = 3 * ratio;
    ctx.strokeStyle = paper;
    ctx.strokeText(text, x, y);
    ctx.fillStyle = fill;
    ctx.fillText(text, x, y);
    ctx.restore();
  };
  const high = rules.filter((each) => !each.across).map((each) => plot.valToPos(each.at, "x", true));
  const written: [number, number][] = [[0, ctx.measureText(yLabel).width + 8 * ratio]];
  const levels: { y: number; right: number }[] = [];
  write(yLabel, 0, bbox.top - 8 * ratio, style("--faint"));
  // Words last: a line that is drawn later would cross them.
  const words: (() => void)[] = [];
  rules.forEach((each, place) => {
    ctx.strokeStyle = each.tint === undefined ? ink : tinted(each.tint);
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash([5 * ratio, 4 * ratio]);
    ctx.beginPath();
    if (each.across) {
      const y = plot.valToPos(each.at, "y", true);
      if (y < bbox.top || y > bbox.top + bbox.height) return;
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      // Limits that lie close have their words side by side.
      const beside = levels.filter((other) => Math.abs(other.y - y) < 14 * ratio).map((other) => other.right);
      const from = Math.max(bbox.left + 6 * ratio, ...beside);
      levels.push({ y, right: from + ctx.measureText(each.label).width + 12 * ratio });
      words.push(() => write(each.label, from, y - 2 * ratio, ink));
      return;
    }
    const x = plot.valToPos(each.at, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    // A label goes left of its line where the next line is near on the right, and never beyond the canvas.
    const wide = ctx.measureText(each.label).width + 8 * ratio;
    const next = Math.min(...high.filter((other, at) => at !== place && other > x));
    const isLeft = next - x < wide;
    const start = isLeft ? x - wide + 4 * ratio : Math.min(x + 4 * ratio, ctx.canvas.width - wide);
    const from = Math.max(start, 0);
    // One that would stand on another goes below it, inside the chart.
    const isFree = written.every(([left, right]) => from >= right || from + wide <= left);
    written.push([from, from + wide]);
    words.push(() => write(each.label, from, bbox.top + (isFree ? -8 : 14) * ratio, ink));
  });
  words.forEach((each) => each());
  if (shade) {
    const left = plot.valToPos(shade.from, "x", true);
    const wide = ctx.measureText(shade.label).width;
    const end = left + 4 * ratio + wide;
    const isFree = end < bbox.left + bbox.width && written.every(([from, until]) => left >= until || end <= from);
    if (isFree) write(shade.label, left + 4 * ratio, bbox.top - 8 * ratio, style("--faint"));
  }
  ctx.restore();
}
