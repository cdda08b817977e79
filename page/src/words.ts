/** Numbers as people read them: three digits, in the unit that keeps them short (as `report/quantity.py` has it). */

const DURATIONS: [number, string][] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]];
const BYTES: [number, string][] = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const WATTS: [number, string][] = [[1e6, "MW"], [1e3, "kW"], [1, "W"]];
const FLOPS: [number, string][] = [[1e15, "PFLOP/s"], [1e12, "TFLOP/s"], [1e9, "GFLOP/s"], [1, "FLOP/s"]];
const BANDWIDTH: [number, string][] = [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]];

/** To so many digits, a whole number in full; with a comma between thousands and no exponent, as the terminal has it. */
export function brief(value: number, digits = 3): string {
  if (value === 0) return "0";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return grouped(value, 0);
  const size = Math.floor(Math.log10(Math.abs(value)));
  const places = Math.min(Math.max(digits - 1 - size, 0), 12);
  return grouped(Number(value.toPrecision(digits)), places);
}

function grouped(value: number, places: number): string {
  const [whole = "", part] = Math.abs(value).toFixed(places).split(".");
  const rest = part?.replace(/0+$/, "");
  return `${value < 0 ? "−" : ""}${whole.replace(/\B(?=(\d{3})+$)/g, ",")}${rest ? `.${rest}` : ""}`;
}

function scaled(value: number, sizes: [number, string][]): string {
  const one = sizes.find(([each]) => each === 1)!;
  if (value === 0) return `0 ${one[1]}`;
  const [size, unit] = sizes.find(([each]) => Math.abs(value) >= each * 0.9995) ?? sizes[sizes.length - 1]!;
  return `${brief(value / size)} ${unit}`;
}

export const seconds = (value: number) => scaled(value, DURATIONS);
export const bytes = (value: number) => scaled(value, BYTES);
/** Shares below a hundredth of a percent are as good as none. */
export const percent = (value: number) => (value > 0 && value < 1e-4 ? "< 0.01 %" : `${brief(100 * value)} %`);
/** A part of a whole beside its other parts: below a thousandth it is as good as none. */
export const part = (value: number) => (value > 0 && value < 1e-3 ? "< 0.1 %" : `${brief(100 * value, 2)} %`);
/** A chance out of some thousand draws: its third digit is noise. */
export const chance = (value: number) => `${brief(100 * value, 2)} %`;
/** A duration in seconds or milliseconds alone, as axes and SLOs have it. */
export const plainSeconds = (value: number) => (value < 1 ? `${brief(value * 1e3)} ms` : `${brief(value)} s`);

/** Three digits, with k and M: dollars, and counts on an axis; a price of a piece in full. */
export function usd(value: number): string {
  const rounded = Number(value.toPrecision(3));
  if (Math.abs(rounded) >= 1e6) return `${brief(rounded / 1e6)} M`;
  if (Math.abs(rounded) >= 1e3) return `${brief(rounded / 1e3)} k`;
  return brief(rounded);
}

/** A price of something small is that of many of it. */
function price(value: number, per: string): string {
  if (per === "token") return `${brief(value * 1e6)} USD/Mtok`;
  if (per.startsWith("byte")) return `${brief(value * 2 ** 30)} USD/GiB${per.slice(4)}`;
  return value > 0 && value < 1e-4 ? `${brief(value * 1e6)} USD per million ${per}s` : `${brief(value, 5)} USD/${per}`;
}

export function show(value: number | string, unit: string): string {
  if (typeof value === "string") return value;
  if (unit === "s") return seconds(value);
  if (unit === "bytes") return bytes(value);
  if (unit === "fraction") return percent(value);
  if (unit === "flop/s") return scaled(value, FLOPS);
  if (unit === "bytes/s") return scaled(value, BANDWIDTH);
  if (unit === "W") return scaled(value, WATTS);
  if (unit === "USD") return `${usd(value)} USD`;
  if (unit === "ratio") return `${brief(value)} ×`;
  if (unit.startsWith("USD/")) return price(value, unit.slice(4));
  if (unit === "parameters") return `${brief(value / 1e9)} billion parameters`;
  if (unit === "text" || unit === "count") return brief(value);
  if (unit.startsWith("1/")) return `${brief(value)} a ${unit.slice(2)}`;
  return `${brief(value)} ${value === 1 && /^[a-z]{3,}s$/.test(unit) ? unit.slice(0, -1) : unit}`.trimEnd();
}

/** `1 replica`, `3 replicas`. */
export const counted = (count: number, noun: string) => `${brief(count)} ${noun}${count === 1 ? "" : "s"}`;

export const title = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
export const spaced = (text: string) => text.replaceAll("_", " ");

/** Which words of a latency people read: `ttft_p95` is TTFT p95. */
export const latency = (name: string) => {
  const [metric = "", statistic = ""] = name.split("_");
  return `${metric.toUpperCase()} ${statistic}`.trim();
};
