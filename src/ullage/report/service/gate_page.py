"""A gate as a page: the verdict, each time before and after, and what the difference means for the plan."""

from __future__ import annotations

from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from ullage.report.quantity import show
from ullage.report.tables import plain_table
from ullage.service.calibration.step_change import MixedRequest, StepDifference, StepVerdict

_STYLES = {
    StepVerdict.SLOWER: "red",
    StepVerdict.FASTER: "green",
    StepVerdict.ALIKE: "green",
    StepVerdict.CANNOT_TELL: "yellow",
}


class Meant(Protocol):
    """What a difference means for a plan."""

    @property
    def before_replicas(self) -> int: ...
    @property
    def after_replicas(self) -> int: ...
    @property
    def low_replicas(self) -> int: ...
    @property
    def high_replicas(self) -> int: ...
    @property
    def usd(self) -> float | None: ...
    @property
    def period_hours(self) -> float: ...


class Gated(Protocol):
    """What the page shows of a gate."""

    @property
    def service(self) -> str: ...
    @property
    def replica(self) -> str: ...
    @property
    def before(self) -> str: ...
    @property
    def after(self) -> str: ...
    @property
    def request(self) -> MixedRequest: ...
    @property
    def difference(self) -> StepDifference: ...
    @property
    def meant(self) -> Meant | None: ...


def gate_page(found: Gated) -> list[RenderableType]:
    difference, whole = found.difference, found.difference.whole
    parts: list[RenderableType] = [
        Text.assemble(
            (f"{found.after} is ", "bold"),
            (str(difference.verdict), f"bold {_STYLES[difference.verdict]}"),
            f": device time per request changes by {whole.ratio - 1.0:+.1%} "
            f"({whole.low_ratio - 1.0:+.1%} to {whole.high_ratio - 1.0:+.1%}, 90 % interval) against "
            f"{found.before}; the tolerance is {difference.tolerance_fraction:.0%}.",
        ),
        Text(
            f"{found.replica}, {found.request.sequences:.1f} requests of {found.request.prompt_tokens:.0f} prompt and "
            f"{found.request.output_tokens:.0f} output tokens at once.",
            style="dim",
        ),
        "",
    ]
    table = plain_table("Steps", "time", "before", "after", "ratio", "low", "high")
    for each in (whole, *difference.parts):
        times = (show(each.before_s, "s"), show(each.after_s, "s"))
        table.add_row(each.name, *times, *(f"{value:.3f}" for value in (each.ratio, each.low_ratio, each.high_ratio)))
    parts.append(table)
    if found.meant is not None:
        parts += ["", Text(_meant(found.service, found.meant))]
    notes = [f"These tests can detect a change of {difference.seen_fraction:.1%} or more."]
    if difference.unseen:
        notes.append(
            f"They do not cover {', '.join(difference.unseen)}, {difference.unseen_fraction:.0%} of that time: a "
            "change "
            "there would go unnoticed."
        )
    return [*parts, "", *(Text(f"- {note}") for note in notes)]


def _meant(service: str, meant: Meant) -> str:
    more = meant.after_replicas - meant.before_replicas
    text = (
        f"For {service}: {meant.after_replicas} replicas ({meant.low_replicas} to {meant.high_replicas}) in place of "
        f"{meant.before_replicas}, {more:+d}, at nominal step times"
    )
    if meant.usd is None:
        return f"{text}; the plan has no price for them."
    return f"{text}: {meant.usd:+,.0f} USD in {meant.period_hours:g} h."
