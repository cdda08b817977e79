"""The tables as Markdown, and the page that holds them between two markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.peers.answers import PeerAnswer, PeerSimulation
from bench.peers.question import Question

SAME_QUESTION, SAME_ROWS = "peers", "agreement"
"""The two generated parts of the page; each command writes its own."""


@dataclass(frozen=True, kw_only=True)
class PeerRun:
    date: str
    question: Question
    answers: Sequence[PeerAnswer]
    simulations: Sequence[PeerSimulation]
    not_asked: Mapping[str, str]


def markdown(found: PeerRun) -> str:
    blocks = [
        f"{found.question.sentence()} Asked on {found.date}.",
        answers_table(found.answers),
        cheapest(found.answers),
    ]
    if found.simulations:
        blocks += [simulations_intro(found.question), simulations_table(found.simulations), faster(found.simulations)]
    if found.not_asked:
        rows = [f"| {tool} | {reason} |" for tool, reason in found.not_asked.items()]
        blocks += ["\n".join(["| not run | reason |", "|---|---|", *rows])]
    return "\n\n".join(each for each in blocks if each) + "\n"


def answers_table(answers: Sequence[PeerAnswer]) -> str:
    rows = [
        f"| {each.tool} | {each.version} | {each.answer} | {each.cpu_s:.1f} | {each.remark} |"
        for each in sorted(answers, key=lambda each: (each.replicas is None, each.replicas, each.tool))
    ]
    return "\n".join(["| planner | version | answer | CPU s | basis |", "|---|---|---|---|---|", *rows])


def cheapest(answers: Sequence[PeerAnswer]) -> str:
    """Who was fastest among those that answered in replicas, said of whoever it is."""
    comparable = sorted((each for each in answers if each.replicas is not None), key=lambda each: each.cpu_s)
    ours = [each for each in comparable if each.tool.startswith("Ullage, `size`")]
    if len(comparable) < 2 or not ours:
        return ""
    first, own = comparable[0], ours[0]
    if first is own:
        return f"Ullage's `size` took the least CPU time of those that answer in replicas, {own.cpu_s:.1f} s."
    ahead = [f"{each.tool} ({each.cpu_s:.1f} s)" for each in comparable if each.cpu_s < own.cpu_s]
    return (
        f"Of those that answer in replicas, these took less CPU time than Ullage's `size` ({own.cpu_s:.1f} s): "
        f"{', '.join(ahead)}."
    )


def simulations_intro(question: Question) -> str:
    return (
        f"One job that two of them have in common: {question.requests:,} requests (Poisson, {question.rate_rps} a "
        f"second) on a pool of the same size, step times nominal, the program's start included."
    )


def simulations_table(simulations: Sequence[PeerSimulation]) -> str:
    rows = [
        f"| {each.tool} | {each.replicas} | {each.requests:,} | {each.cpu_s:.1f} | {1e3 * each.ttft_p50_s:.0f} / "
        f"{1e3 * each.ttft_p95_s:.0f} | {1e3 * each.tpot_p50_s:.1f} / {1e3 * each.tpot_p95_s:.1f} |"
        for each in simulations
    ]
    head = "| simulator | replicas | requests | CPU s | TTFT p50 / p95, ms | TPOT p50 / p95, ms |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def faster(simulations: Sequence[PeerSimulation]) -> str:
    if len(simulations) < 2:
        return ""
    first, *_, last = sorted(simulations, key=lambda each: each.cpu_s)
    return f"{first.tool} took {first.cpu_s:.1f} CPU s, {last.tool} {last.cpu_s / first.cpu_s:.1f} times that."


def markers(part: str) -> tuple[str, str]:
    return f"<!-- {part}: begin -->", f"<!-- {part}: end -->"


def between_markers(page: str, part: str, generated: str) -> str:
    """The page with what stands between the markers of a part replaced.

    >>> begin, end = markers(SAME_QUESTION)
    >>> page = f"a\\n{begin}\\nold\\n{end}\\nb"
    >>> between_markers(page, SAME_QUESTION, "new\\n") == f"a\\n{begin}\\n\\nnew\\n\\n{end}\\nb"
    True
    """
    begin, end = markers(part)
    before, found_begin, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"the page has no {begin} ... {end}")
    return f"{before}{begin}\n\n{generated}\n{end}{after}"
