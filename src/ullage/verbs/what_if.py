"""What if: a verb run on the plan as it is and on the changed plan, with both answers side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ullage.load.changes import SetValues, parse_changes
from ullage.verbs.answer import Headline, VerbAnswer

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, kw_only=True)
class HeadlineChange:
    """One headline before and after; None where one of the two answers does not have it."""

    name: str
    before: Headline | None
    after: Headline | None

    @property
    def change_fraction(self) -> float | None:
        """After over before, less one, where both are numbers."""
        old, new = (None if each is None else each.value for each in (self.before, self.after))
        if isinstance(old, str) or isinstance(new, str) or not old or new is None:
            return None
        return new / old - 1.0


@dataclass(frozen=True, kw_only=True, repr=False)
class WhatIf(VerbAnswer):
    """The answer with the changes, and the one without them to compare it with."""

    changes: tuple[str, ...]
    before: VerbAnswer
    after: VerbAnswer

    @property
    def rows(self) -> tuple[HeadlineChange, ...]:
        """Every headline of either answer, in the order in which the changed one has them."""
        old, new = ({each.name: each for each in one.headlines()} for one in (self.before, self.after))
        return tuple(
            HeadlineChange(name=name, before=old.get(name), after=new.get(name)) for name in dict.fromkeys([*new, *old])
        )

    def headlines(self) -> tuple[Headline, ...]:
        return self.after.headlines()

    def page(self) -> list[RenderableType]:
        return [*self.block(), "", *self.after.page()]

    def block(self) -> list[RenderableType]:
        """Before and after, one line for each headline."""
        from rich.text import Text

        from ullage.report.tables import plain_table

        table = plain_table("", "", "as it is", "changed", "change")
        for each in self.rows:
            sides = ("none" if one is None else one.text for one in (each.before, each.after))
            share = each.change_fraction
            table.add_row(each.name, *sides, "" if not share else f"{100 * share:+.3g} %")
        said = self.after.beside(self.before)
        return [Text(f"What if: {', '.join(self.changes)}", style="bold"), *([Text(said)] if said else []), table]

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.after.to_dict(),
            "what_if": {
                "changes": list(self.changes),
                "headlines": [
                    {
                        "name": each.name,
                        "unit": (each.after or each.before or Headline(name="", value="")).unit,
                        "before": None if each.before is None else each.before.value,
                        "after": None if each.after is None else each.after.value,
                    }
                    for each in self.rows
                ],
            },
        }


def what_if(
    ask: Callable[..., VerbAnswer],
    set: SetValues | None = None,  # noqa: A002
    traffic: str | float | None = None,
) -> VerbAnswer:
    """The answer of `ask(set=..., traffic=...)`, beside the one without changes where there are any."""
    changes = parse_changes(set or (), traffic)
    if not changes:
        return ask(set=(), traffic=None)
    # The changed plan comes first: a change that is wrong is refused before the minutes of the other.
    after = ask(set=set or (), traffic=traffic)
    return WhatIf(changes=changes.texts, before=ask(set=(), traffic=None), after=after)


def last(found: VerbAnswer) -> Any:
    """The answer itself: of a what-if, the one with the changes."""
    return found.after if isinstance(found, WhatIf) else found
