"""What every section of a plan file is: named keys and no others, and all that is to be said of a key in one place."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler

from ullage.evidence import Assumption, Evidence, Source
from ullage.units import DIMENSIONS, print_exact

# A name that becomes part of the names of figures, so it has no dots and no spaces.
Name = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z][a-z0-9-]*$")]


@dataclass(frozen=True, kw_only=True)
class Key:
    """What a key means, what stands in for it, and which figure of the result it moves.

    `default` is the assumption itself, or how to look it up where it is a fact, or words where it is worked out from
    other keys. `moves` names figures of a plan as a shell pattern (or a check, or an option, by its verb); a key that
    moves none says in `still` why.
    """

    means: str
    default: Assumption | Callable[[], Assumption] | str = ""
    moves: str = ""
    still: str = ""
    choices: tuple[str, ...] = ()

    @property
    def assumed(self) -> Assumption | None:
        """The default as an assumption, where it is a value."""
        found = self.default() if callable(self.default) else self.default
        return None if isinstance(found, str) else found


class Section(BaseModel):
    """A mapping of a plan file. Unknown keys are refused; what is left out is None, and gets a named default later."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def value(self, name: str) -> Any:
        """What the file says of a key, or else the value that stands in for it."""
        said, key = getattr(self, name), key_of(type(self), name)
        return said if said is not None or key is None or key.assumed is None else key.assumed.value

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema, with what each key's row says of it."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for name, field in cls.model_fields.items():
            shown, key = properties[field.alias or name], key_of(cls, name)
            if key is None:
                continue
            shown["description"] = key.means
            shown.pop("default", None)
            if key.assumed is not None:
                value = key.assumed.value
                shown["default"] = value if isinstance(value, int) else written(key.assumed)
            if key.choices:
                shown["enum"] = [*key.choices, *([] if field.is_required() else [None])]
        return schema


def key_of(section: type[Section], name: str) -> Key | None:
    """The row of a field; None where it only holds a section, which explains itself."""
    return next((each for each in section.model_fields[name].metadata if isinstance(each, Key)), None)


def ours(
    name: str, value: int | float | str, unit: str, reason: str, *, decision: bool = False, where: str = ""
) -> Assumption:
    """A default of the plan file itself, with the reason for it; those of a stage stand in that stage."""
    return Assumption(
        name=name,
        value=value,
        unit=unit,
        evidence=Evidence.ASSUMED,
        source=Source(
            what=f"default of Ullage: {reason}",
            where=where or "docs/reference/plan-file-keys.md",
            date=datetime.date(2026, 11, 15),
        ),
        decision=decision,
    )


def written(default: Assumption) -> str:
    """A default as a plan file would state it.

    >>> written(ours("policy.horizon", 2_592_000.0, "s", "a month"))
    '30d'
    """
    value = default.value
    dimension = next((each for each in DIMENSIONS if each.unit == default.unit), None)
    if isinstance(value, str):
        return value
    if dimension is not None:
        return print_exact(value, dimension)
    return f"{value:.12g} {default.unit}" if default.unit.startswith("USD") else f"{value:.12g}"
