"""Small usage logs for tests of attribution, and lines to divide."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ullage.cost.attribution.usage import Labels, UsageLog
from ullage.cost.lines.line import Behaviour, BillLine, Driver, Origin, Sharing

TENANTS = ("acme", "globex", "initech")


def usage_log(rows: list[tuple[int, float, float, int, int, bool]], *, names: tuple[str, ...] = TENANTS) -> UsageLog:
    """Rows of (place of the tenant or -1, start, length, prompt, output, success)."""
    tenant, start, length, prompt, output, success = (np.array(each) for each in zip(*rows, strict=True))
    return UsageLog(
        labels={"tenant": Labels(names=names, places=tenant.astype(np.int64))},
        prompt_tokens=prompt.astype(np.float64),
        output_tokens=output.astype(np.float64),
        cached_tokens=np.floor(prompt / 3.0),
        successes=success.astype(bool),
        start_s=start.astype(np.float64),
        end_s=(start + length).astype(np.float64),
    )


def rows(least: int = 1, most: int = 30) -> st.SearchStrategy[list[tuple[int, float, float, int, int, bool]]]:
    row = st.tuples(
        st.integers(-1, len(TENANTS) - 1),
        st.integers(0, 200).map(float),
        st.integers(1, 60).map(float),
        st.integers(1, 5000),
        st.integers(1, 2000),
        st.booleans(),
    )
    return st.lists(row, min_size=least, max_size=most)


def line(cents: int, driver: Driver, *, used_fraction: float = 1.0, name: str = "line", pool: str = "") -> BillLine:
    return BillLine(
        name=name,
        pool=pool,
        cents=cents,
        behaviour=Behaviour.FIXED,
        sharing=Sharing.SHARED,
        origin=Origin.INTERNAL,
        driver=driver,
        used_fraction=used_fraction,
    )


def bill_lines() -> st.SearchStrategy[list[BillLine]]:
    one = st.builds(
        line,
        st.integers(0, 10**9),
        st.sampled_from(Driver),
        used_fraction=st.floats(0.0, 1.0),
    )
    return st.lists(one, min_size=1, max_size=8)
