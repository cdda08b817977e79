"""What every section of a plan file is: named keys and no others, each field's unit written with it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
# A name that becomes part of the names of figures, so it has no dots and no spaces.
Name = Annotated[str, Field(min_length=1, pattern=r"^[a-z][a-z0-9-]*$", description="Short, lower case.")]


class Section(BaseModel):
    """A mapping of a plan file. Unknown keys are refused; what is left out is None, and gets a named default later."""

    model_config = ConfigDict(extra="forbid", frozen=True)
