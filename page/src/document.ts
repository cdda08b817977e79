/** The plan's JSON (docs/reference/schemas/plan.schema.json), as far as the views read it. */

export type Value = number | string;

export interface Source {
  what: string;
  where: string;
  date: string;
}

/** A figure or an assumption. In the summary only the first four stand; `known` finds the rest by name. */
export interface Quantity {
  name: string;
  value: Value;
  unit: string;
  evidence: string;
  formula?: string;
  inputs?: string[];
  low?: number;
  high?: number;
  max_age_days?: number;
  is_stale?: boolean;
  sources?: Source[];
}

export interface Interval {
  value: number;
  low: number;
  high: number;
}

export interface Step {
  name: string;
  amount: Quantity;
  usd: Quantity | null;
  remark: string;
}

export interface PoolAnswer {
  name: string;
  model: string;
  machines: { shape: string; device: string; replicas: Quantity; devices: Quantity; nodes: Quantity };
  load: Quantity;
  replicas: Step[];
  rounding: Step;
  usd: Quantity | null;
  utilisation: { name: string; utilisation: Quantity }[];
  stops: { name: string; growth: Quantity | null; load: Quantity | null }[];
  limits: { where: string; name: string; limit: Quantity }[];
  shed_first: string | null;
}

export interface Summary {
  until: string;
  verdict: string;
  reasons: string[];
  warnings: string[];
  surprises: { name: string; sentence: string; moves: Quantity | null }[];
  total_usd: Quantity | null;
  next_step: {
    what: string;
    cost_usd: Quantity | null;
    saves_replicas: Quantity | null;
    saves_usd: Quantity | null;
  } | null;
  risks: { pool: string; shortfall: Quantity; hours: Quantity; chosen: Quantity; usd: Quantity[] | null }[];
  traffic: Step[];
  pools: PoolAnswer[];
  money: { name: string; usd: Quantity }[];
  unpriced: string[];
  per_success: Quantity | null;
  causes: { name: string; bill: Quantity; requests: Quantity }[];
  prices: string;
  orders: { device: string; region: string; devices: Quantity; there_on: string; is_late: boolean }[];
  assumption_count: number;
  stale_count: number;
}

export interface Stage {
  name: string;
  pool: string;
  status: string;
  figures: string[];
  notes: string[];
  missing: { instead?: string; fix?: string } | null;
}

export interface LoadPoint {
  offered_rps: number;
  is_sustained: boolean;
  goodput: Interval | null;
  latencies: Record<string, Record<string, Interval>>;
  violated: string[];
}

export interface LossPhases {
  name: string;
  title: string;
  covered_by: string;
  verdict: string;
  reason: string;
  slo_name: string;
  required_fraction: number | null;
  before: Interval | null;
  during: Interval | null;
  after: Interval | null;
  recover_s: number | null;
}

export interface Driver {
  name: string;
  first_fraction: number;
  first_low_fraction: number;
  first_high_fraction: number;
}

export interface RiskSeries {
  replicas: number;
  machines: { replicas: number; shortfall_fraction: number; error_fraction: number; hours_per_month: number }[];
  drivers: Driver[];
  drives: string;
  measurements: {
    measurement: { name: string; what: string; usd: number | null };
    now_replicas: number;
    expected_replicas: number;
    low_replicas: number;
    high_replicas: number;
    saves_usd: number | null;
  }[];
  break_evens: { name: string; ratio: number | null }[];
  regrets: { replicas: number; usd: number; hours_per_month: number; worth_from_usd: number | null }[];
  lines: Record<string, number>;
  draws: number;
}

/** One load test: the percentiles of SLOs that it states, and latencies beside the same test simulated. */
export interface TestPoint {
  name: string;
  offered_rps: number | null;
  slos_s: Record<string, number>;
  residuals: { latency: string; statistic: string; measured_s: number; simulated_s: number; low_s: number; high_s: number; ratio: number; is_outside: boolean }[];
  is_like_mix: boolean;
  reason: string | null;
  anomalies: string[];
}

/** A burst played on some replicas; rates are of all of them together, by when a request first came. */
export interface BurstReplay {
  protection: string;
  replicas: number;
  planned_rps: number;
  burst_rps: number;
  from_s: number;
  until_s: number;
  step_s: number;
  offered_rps: number[];
  success_rps: number[];
  late_rps: number[];
  refused_rps: number[];
  waiting_requests: number[];
  back_after_s: number | null;
}

export interface Drill {
  name: string;
  title: string;
  pool: string;
  verdict: string;
  figure: string;
  before: Quantity | null;
  during: Quantity | null;
  wanted: string;
  played: string;
  change: string;
}

export interface Needed {
  replicas: number;
  usd_per_month: number | null;
  usd_per_success: number | null;
}

/** What `ullage reconcile --json` found. */
export interface Reconciliation {
  service: string;
  plan: string;
  planned_on: string;
  start: string;
  end: string;
  source: string;
  scorecard: { what: string; unit: string; planned_value: number | null; observed_value: number | null; low: number | null; high: number | null; note: string }[];
  causes: { planned: Needed; observed: Needed; shares: { cause: string; in_order: Needed; shapley: Needed }[] } | null;
  ran_replicas: number | null;
  inputs: { cause: string; name: string; unit: string; stated_value: number; observed_value: number | null; low: number | null; high: number | null; verdict: string; why: string }[];
  stale: { name: string; age_days: number; max_age_days: number }[];
  slos: { class_name: string; slo: string; limit_s: number; low_s: number | null; high_s: number | null; attained: string }[];
  shortfall: { hours: number; violated_hours: number; undecided_hours: number; above_plan_hours: number };
  forecast: { class_name: string; week: string; wape_fraction: number; bias_fraction: number; coverage_fraction: number; nominal_fraction: number }[];
  past: string[];
  notes: { kind: string; quantity: string; what: string }[];
  left_out: string[];
}

export interface PoolSeries {
  name: string;
  week: { name: string; hours_rps: number[] }[];
  lengths?: { name: string; bins_per_octave: number; cells: [number, number, number][]; correlation_ratio: number }[];
  reuse?: { name: string; cache_tokens: number[]; hit_fractions: number[] }[];
  tests?: TestPoint[];
  bursts?: BurstReplay[];
  forecasts: {
    name: string;
    unit: string;
    step_s: number;
    logged: (number | null)[];
    /** How many times the log the forecast stands at; plans of before have none. */
    scale_ratio?: number;
    low: number[];
    middle: number[];
    high: number[];
  }[];
  device_bytes: number;
  memory: { name: string; figure: string; part_bytes: number }[];
  curve: LoadPoint[];
  zones: { zone: string; nodes: number; replicas: number; used_devices: number; unused_devices: number }[];
  losses: LossPhases[];
  scaling: {
    day: string;
    start_s: number;
    fixed_replicas: number;
    each_rps: number;
    demand_rps: number[];
    replicas: number[];
    violated: Record<string, number>;
  };
  risk: RiskSeries | null;
}

export interface BillLine {
  name: string;
  item: string;
  pool: string;
  label: string;
  usd: number;
  is_priced: boolean;
  missing: string;
  behaviour: string;
  sharing: string;
  origin: string;
  figure: string | null;
}

export interface SheetRow {
  what: string;
  figures: string[];
  missing: string[];
  evidence: string | null;
}

export interface PlanJson {
  schema: string;
  service: string;
  as_of: string;
  seed: number;
  summary: Summary;
  classes: { name: string; priority: number; slos: { name: string; metric: string; limit_s: number }[] }[];
  stages: Stage[];
  margins: Record<string, { where: string; reason: string; size: Quantity | null; cost: Quantity | null }[]>;
  scorecard: SheetRow[];
  questions: SheetRow[];
  not_guaranteed: { what: string; rests_on: string }[];
  figures: Record<string, Quantity>;
  assumptions: Record<string, Quantity>;
  /** Beside the plan, where they were given: what drills and production said of it. */
  drilled?: { results: Drill[]; notes: string[] };
  reconciled?: { found: Reconciliation; updates: { key: string; old: string; new: string; evidence: string }[] };
  series?: { pools: PoolSeries[]; bill: BillLine[]; rules: { name: string; cents: Record<string, number> }[] };
}

/** A plan's JSON with the few ways in which views ask it. */
export class Plan {
  /** Figures of drills, which the plan itself does not list. */
  private readonly beside = new Map<string, Quantity>();

  constructor(readonly json: PlanJson) {
    for (const each of json.drilled?.results ?? []) for (const one of [each.before, each.during]) if (one) this.beside.set(one.name, one);
  }

  get summary(): Summary {
    return this.json.summary;
  }

  /** The number of this name with its formula and sources; of a pool among several its name begins with the pool's. */
  known(name: string): Quantity | undefined {
    return this.json.figures[name] ?? this.json.assumptions[name] ?? this.beside.get(name);
  }

  figure(name: string, pool = ""): Quantity | undefined {
    return (pool ? this.known(`${pool}.${name}`) : undefined) ?? this.known(name);
  }

  number(name: string, pool = ""): number | undefined {
    const found = this.figure(name, pool)?.value;
    return typeof found === "number" ? found : undefined;
  }

  stage(name: string, pool = ""): Stage | undefined {
    return this.json.stages.find((each) => each.name === name && (each.pool === "" || each.pool === pool));
  }

  series(pool: string): PoolSeries | undefined {
    return this.json.series?.pools.find((each) => each.name === pool);
  }

  /** Pools, each with whether there are several, in the order of the plan. */
  get pools(): PoolAnswer[] {
    return this.summary.pools;
  }
}
