"""From a plan file, its names and paths to a specification: the only place that joins files, readers and facts.

plan.py        load_plan: a plan as file, dict or the built-in example, with what-if changes, as a PlanSpec
plan_spec.py   what the sections say, as the values the core plans from
changes.py     what-if changes: --set and --traffic
names.py       models, devices and catalogues by name
evidence.py    load tests, calibrations, step profiles, engine logs, price lists
traffic.py     request logs, saved profiles, synthetic models
pool.py        the replica that curve, size and simulate work on
dates.py       dates in the future refused, events outside the horizon named
located.py     a fault of a stage, told by file, line and key
texts.py       files that are read whole, within limits
typed.py       what people type: rates, columns, classes, events, SLOs
"""
