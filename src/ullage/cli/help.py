"""The verbs of the command line, in the order in which people meet them, and the help that lists them.

To add a verb: write verbs/<verb>.py and cli/<verb>.py (one function `command`), then list it here.
"""

from __future__ import annotations

VERBS: dict[str, str] = {
    "plan": "Plan a fleet: every stage in order, from traffic to cost, each number with its evidence.",
    "init": "Write a first plan file from what there is: a trace, a load test, an engine's log, a model's name.",
    "report": "Write a plan as one HTML file: each question, its answer, a chart, and every number explained.",
    "options": "Compare devices, parallelism and settings by cost per success; who is refused and why; when to order.",
    "risk": "Say how often a plan's fleet falls short, which inputs move it, and what to measure first.",
    "scenarios": "Plan the best, the base, the worst and your own future, and compare the plans.",
    "portfolio": "Place many services under shared quotas, budget and nodes: what to give up first, who moves out.",
    "brownfield": "Lay a plan over what a cluster runs: have, need, change, risk, and the order of steps.",
    "check": "Look for mistakes in a plan and in what is claimed of the service; an exit code for CI.",
    "drill": "Play on a plan what goes wrong in practice: verdict, figure, and the change that would pass.",
    "emit": "Write a plan as manifests, flags, rules and limits for a cluster, each number with its reason.",
    "scale": "Try scaling rules on a plan's traffic: yours, ours and common ones, with what each costs and violates.",
    "shadow": "Play a scaling rule on production's own traffic, beside what the live autoscaler did.",
    "compare": "Compare two plans: which inputs changed, which figures moved, and why.",
    "reconcile": "Hold a kept plan against production: scorecard, error by cause, and what to change.",
    "ledger": "What was kept: list, show, diff, export, import, verify, and let go by rule.",
    "facts": "Show what is known about devices, models and engines: each value with range, source and age.",
    "profile": "Profile request logs: arrivals, bursts, lengths, seasons, sessions, reuse, and anomalies.",
    "forecast": "Forecast demand: a fan chart, the busiest hour to plan for, past accuracy, and anomalies.",
    "measure": "Measure one replica with a load tool, test by test, until the number of replicas is decided.",
    "validate": "Predict load tests from a plan, then score them: validated, not validated, or cannot tell.",
    "gate": "Compare a replica before and after an upgrade: slower or not, replicas, USD; an exit code for CI.",
    "calibrate": "Fit a step model to load tests of any tool; --inspect shows what was read and its anomalies.",
    "memory": "Budget the memory of a device: does a model fit, and how much fits beside it.",
    "curve": "Sweep the load of one replica: latency and goodput by load, the knee, and the load to run at.",
    "simulate": "Serve a trace, a plan's traffic or a plain load on replicas, and print what became of it.",
    "size": "Size a pool: the least replicas that meet every SLO at a rate, by simulation.",
    "cost": "Bill a plan: every line of a month, what a success costs, and who caused it.",
    "buy": "Say how to buy a plan's nodes: terms, hours, spot; what the mix saves, and what it may lose.",
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

Plan capacity and cost for language-model serving: how full to run the fleet, and how sure that is.

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
