"""DuckDB answers as numpy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from duckdb import DuckDBPyRelation


def arrays(relation: DuckDBPyRelation) -> dict[str, NDArray[Any]]:
    """The columns of an answer without NULLs."""
    return {name: np.asarray(values) for name, values in relation.fetchnumpy().items()}


def one_row(relation: DuckDBPyRelation) -> tuple[Any, ...]:
    """The only row of an answer."""
    rows = relation.fetchall()
    assert len(rows) == 1
    return tuple(rows[0])


def literal(value: str) -> str:
    """A string in SQL."""
    return "'" + value.replace("'", "''") + "'"
