"""Asks everybody, prints the tables, and with --write puts them into docs/explanation/peers.md.

Asked is the same sizing question or, with --agreement, the same published rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from bench.peers import answers
from bench.peers.agreement import Sample, agreement, agreement_markdown
from bench.peers.environments import ROOT, PeerUnavailableError
from bench.peers.question import Question
from bench.peers.report import SAME_QUESTION, SAME_ROWS, PeerRun, between_markers, markdown

Answer = TypeVar("Answer")
PAGE = ROOT / "docs" / "explanation" / "peers.md"
# The pool that both simulators are timed on.
TIMED_REPLICAS = 6
# Looked at on the date of the last run, and why there is nothing to run.
NOT_ASKED = {
    "BLIS (inference-sim)": "a Go program, not on PyPI; the package called blis there is a linear-algebra library",
    "llm-d-planner 0.3.3": "installs, but its `estimate` needs BentoML's llm-optimizer, which is not on PyPI (the "
    "package of that name there caches prompts); its recommendation needs a PostgreSQL and a bundled benchmark of the "
    "model, of which there are four token shapes, none of Qwen3-32B; `plan` says whether a model fits, from a "
    "configuration that it fetches from Hugging Face",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/explanation/peers.md")
    parser.add_argument("--agreement", action="store_true", help="how far each is from published rows, instead")
    parser.add_argument("--rows", type=int, default=Sample.rows, help="so many of each family, device and engine")
    parser.add_argument("--seed", type=int, default=Sample.seed, help="of the draw of rows")
    arguments = parser.parse_args()
    part = SAME_ROWS if arguments.agreement else SAME_QUESTION
    sample = Sample(rows=arguments.rows, seed=arguments.seed)
    text = agreement_markdown(agreement(sample)) if arguments.agreement else same_question()
    print(text)
    if arguments.write:
        PAGE.write_text(between_markers(PAGE.read_text(encoding="utf-8"), part, text), encoding="utf-8")


def same_question() -> str:
    question = Question()
    ours = partial(answers.ullage_simulation, question)
    theirs = partial(answers.aisimulate_simulation, question)
    asked: dict[str, Callable[[], answers.PeerAnswer]] = {
        "Ullage, `size`": partial(answers.ullage_size, question),
        "Ullage, `simulate`": lambda: answers.least_answer(
            answers.least_pool(ours, question), question, "Poisson arrivals, nominal step times, no margin"
        ),
        "AISimulate": lambda: answers.least_answer(
            answers.least_pool(theirs, question),
            question,
            "Poisson arrivals, kernel tables, no margin; its own `recommend` was not run",
        ),
        "AIConfigurator": partial(answers.aiconfigurator, question),
        "vllm-sr-sim": partial(answers.vllm_sr_sim, question),
        "slosizer": partial(answers.slosizer, question),
        "service-capacity-modeling": partial(answers.service_capacity_modeling, question),
    }
    not_asked = dict(NOT_ASKED)
    found = [answer for name, ask in asked.items() if (answer := answered(name, ask, not_asked))]
    timed = [answered(name, partial(ask, TIMED_REPLICAS), not_asked) for name, ask in
             (("Ullage, `simulate`", ours), ("AISimulate, `predict`", theirs))]  # fmt: skip
    return markdown(
        PeerRun(
            date=datetime.now(UTC).date().isoformat(),
            question=question,
            answers=found,
            simulations=[each for each in timed if each],
            not_asked=not_asked,
        )
    )


def answered(name: str, ask: Callable[[], Answer], not_asked: dict[str, str]) -> Answer | None:
    try:
        return ask()
    except PeerUnavailableError as error:
        not_asked[name] = str(error)
        return None


if __name__ == "__main__":
    main()
