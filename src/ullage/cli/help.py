"""The verbs of the command line, in the order in which people meet them, and the help that lists them.

To add a verb: write verbs/<verb>.py and cli/<verb>.py (one function `command`), then list it here.
"""

from __future__ import annotations

VERBS: dict[str, str] = {
    "plan": "Plan a fleet: every stage in order, from traffic to cost, each number with its evidence.",
    "init": "Write a first plan file from what you have: a trace, a load test, an engine's log, a model's name.",
    "report": "Write a plan as one HTML file: each question, its answer, a chart, and every number explained.",
    "options": "Compare devices, parallelism and settings by cost per success; what is refused and why; when to order.",
    "risk": "Estimate how often a fleet falls short, which inputs drive it, and what to measure first.",
    "scenarios": "Plan the best, base and worst case and your own scenarios, and compare them.",
    "portfolio": "Place many services under shared quotas, budget and nodes: what to drop first, what moves.",
    "brownfield": "Compare a plan with what a cluster runs: gaps, risks, and the steps in order.",
    "check": "Check a plan and claims about the service for known mistakes; an exit code for CI.",
    "drill": "Simulate failures and overloads on a plan: verdict, figure, and the change that would pass.",
    "emit": "Write a plan as manifests, flags, rules and limits for a cluster, each number with its reason.",
    "scale": "Compare scaling rules on a plan's traffic: yours, ours and common ones, by cost and SLO violations.",
    "shadow": "Replay a scaling rule on production traffic, beside what the live autoscaler did.",
    "compare": "Compare two plans: which inputs changed, which figures changed, and why.",
    "reconcile": "Compare a stored plan with production: scorecard, error by cause, and what to change.",
    "ledger": "The ledger of stored plans and observations: list, show, diff, export, import, verify, prune.",
    "facts": "Show what is known about devices, models and engines: each value with range, source and age.",
    "profile": "Profile request logs: arrivals, bursts, lengths, seasons, sessions, reuse, and anomalies.",
    "forecast": "Forecast demand: a fan chart, the busiest hour to plan for, past accuracy, and anomalies.",
    "measure": "Measure one replica with a load tool, test by test, until the number of replicas is decided.",
    "validate": "Predict load tests from a plan, then score them: validated, not validated, or cannot tell.",
    "gate": "Compare a replica before and after an upgrade: slower or not, replicas, USD; an exit code for CI.",
    "calibrate": "Fit a step model to load tests of any tool; --inspect shows what was read and its anomalies.",
    "memory": "Budget the memory of a device: does a model fit, and how much KV cache is left.",
    "curve": "Sweep the load of one replica: latency and goodput by load, the knee, and the load to run at.",
    "simulate": "Simulate a trace, a plan's traffic or a synthetic load on replicas: latency, outcomes, queues.",
    "size": "Size a pool: the fewest replicas that meet every SLO at a rate, by simulation.",
    "cost": "Bill a plan: every line of a month, what a success costs, and who caused it.",
    "buy": "Choose how to buy a plan's nodes: committed, on demand, spot; savings and regret.",
}

SERVICES: dict[str, str] = {
    "serve": "Serve the verbs over HTTP, with a live page: on this machine, or for a team with tokens.",
    "mcp": "Serve the read-only verbs to an agent over MCP, on stdin and stdout.",
}
"""What goes on until it is told to stop. They hand back no answer, and are written in serve/."""

COMMANDS = {**VERBS, **SERVICES}

# Verbs whose module has another name, because its own is taken.
MODULES: dict[str, str] = {"options": "options_verb"}


def top_level_help() -> str:
    """What `ullage --help` prints."""
    width = max(len(verb) for verb in COMMANDS)
    verbs, services = (
        "\n".join(f"  {verb:<{width}}  {what}" for verb, what in each.items()) for each in (VERBS, SERVICES)
    )
    return f"""\
Usage: ullage VERB [ARGUMENTS]

Plan capacity and cost for language-model serving: how full to run the fleet, and how certain that is.

Verbs:
{verbs}

Services:
{services}

Options:
  --version             Print the version.
  --install-completion  Install completion for the current shell.
  --show-completion     Print the completion script of the current shell.
  --help                Print this.

ullage VERB --help explains one verb. Exit codes: 0 an answer, 2 wrong input, 3 refused plan, 4 internal error,
5 undecided.
"""
