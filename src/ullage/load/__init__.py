"""From a plan file, its names and paths to a specification: the only place that joins files, readers and facts.

plan.py          load_plan: a plan as file, dict or the built-in example, with what-if changes, as a PlanSpec
plan_spec.py     what the sections say, as the values the core plans from
changes.py       what-if changes: --set and --traffic
names.py         models, devices and catalogues by name
evidence.py      load tests, calibrations, step profiles, engine logs, price lists
traffic.py       request logs, saved profiles, synthetic models
mixes.py         the traffic of each pool of a plan, at any rate
scored_bands.py  how earlier forecasts of a service scored, as bands of its next plan
pool.py          the replica that curve, size and simulate work on
pool_cache.py    host memory and the time between turns, as caches of a pool
pool_money.py    the cost of one replica of a plan's pool, without planning
dates.py         dates in the future refused, events outside the horizon named
located.py       a fault of a stage, with file, line and key
texts.py         files that are read whole, within limits
typed.py         values typed on the command line: rates, columns, classes, events, SLOs
"""
