"""The placement as an integer program over replicas and nodes.

    x[p, r]   replicas of pool p in region r, whole
    g[p]      replicas of it that are dropped, whole
    n[k, r]   nodes of kind k (a device, so many in a node) in region r, whole; pools of a kind share them
    c[d, r]   devices of kind d in region r that a commitment pays

    where   sum of x[p, .] + g[p] = what p needs,   g[p] <= what it may drop
            devices of n[k, r] >= devices of x in r whose pools stand on nodes of kind k
            devices of n <= quota,  n <= nodes,  c <= devices of n,  c <= what is committed
            price of devices - price of those that a commitment pays + commitments <= budget

First the cost of what is dropped is minimised, then, with that, the price of devices: nothing is dropped only because
that is cheap.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ullage.errors import InputError, InternalError
from ullage.planning.portfolio.limits import DAYS_PER_MONTH, HOURS_PER_MONTH, PoolNeed, PortfolioLimits

if TYPE_CHECKING:
    from scipy.optimize import Bounds
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
_SECONDS, _GAP = 60.0, 1e-4
# In a lost region's plan moving what stands elsewhere comes before money: so many USD of a month for a replica.
_MOVE_USD = 1e6


@dataclass(frozen=True, kw_only=True)
class Placed:
    """An answer of the program: replicas by pool and region, what is given up, nodes, and its two costs."""

    replicas: Mapping[tuple[str, str], int]
    given_up: Mapping[str, int]
    nodes: Mapping[tuple[str, int, str], int]
    committed_devices: Mapping[tuple[str, str], float]
    lost_usd: float
    usd: float

    def in_region(self, pool: str, region: str) -> int:
        return self.replicas.get((pool, region), 0)


def place_pools(
    pools: Sequence[PoolNeed],
    limits: PortfolioLimits,
    *,
    without: str = "",
    standing: Placed | None = None,
) -> Placed | None:
    """The placement of least loss, and of those the cheapest; None where even giving up all that may be does not fit.

    `without` is a region that is lost: nothing stands there, the budget waits, and what stands elsewhere (`standing`)
    is moved only where that saves more than it costs anybody.
    """
    try:
        importlib.import_module("scipy.optimize")
    except ImportError:
        fix = "Install ullage[options] for portfolios."
        raise InputError(field="scipy", value=None, problem="is not installed", fix=fix) from None
    program = _Program(pools, limits, without=without, standing=standing)
    first = program.solved(program.loss, cap=None)
    if first is None:
        return None
    lost_usd = float(program.loss @ first)
    second = program.solved(program.cost, cap=lost_usd * (1.0 + 1e-6) + 1e-6)
    return program.placed(second if second is not None else first)


class _Program:
    """Columns and rows, found by what they are of."""

    def __init__(
        self, pools: Sequence[PoolNeed], limits: PortfolioLimits, *, without: str, standing: Placed | None
    ) -> None:
        self.pools, self.limits, self.standing = pools, limits, standing
        self.regions = [each for each in limits.places if each.name != without]
        self.is_loss = bool(without)
        self.kinds = sorted({(each.device, each.node_devices) for each in pools})
        self.columns: dict[tuple[str, ...], int] = {}
        self._make_columns()
        self.prices = {
            device: max((each.device_usd or 0.0 for each in pools if each.device == device), default=0.0)
            for device, _ in self.kinds
        }
        self.loss, self.cost = self._loss(), self._cost()

    def _make_columns(self) -> None:
        names = [each.name for each in self.regions]
        for pool in self.pools:
            allowed = self.limits.terms(pool.service).regions or names
            for region in names:
                if region in allowed:
                    self._column("x", pool.name, region)
                    if self.standing is not None and self.standing.in_region(pool.name, region):
                        self._column("m", pool.name, region)
            self._column("g", pool.name)
        for device, size in self.kinds:
            for region in names:
                self._column("n", device, str(size), region)
        for each in self.limits.commitments:
            if each.region in names:
                self._column("c", each.device, each.region)

    def _column(self, *what: str) -> int:
        return self.columns.setdefault(what, len(self.columns))

    def _loss(self) -> Floats:
        """A month of the requests that the missing replicas would have served, at what each costs."""
        found = np.zeros(len(self.columns))
        for pool in self.pools:
            lost = self.limits.lost_usd(pool.service) * pool.lost_requests_per_replica * DAYS_PER_MONTH
            found[self.columns["g", pool.name]] = lost
        return found

    def _cost(self) -> Floats:
        found = np.zeros(len(self.columns))
        for what, at in self.columns.items():
            if what[0] == "n":
                found[at] = self.prices[what[1]] * int(what[2])
            elif what[0] == "c":
                found[at] = -self.prices.get(what[1], 0.0)
            elif what[0] == "m":
                found[at] = _MOVE_USD
        return found

    @property
    def committed_usd(self) -> float:
        return sum(each.devices * each.usd_per_hour * HOURS_PER_MONTH for each in self.limits.commitments)

    def _bounds(self) -> Bounds:
        from scipy.optimize import Bounds

        low, high = np.zeros(len(self.columns)), np.full(len(self.columns), np.inf)
        needs = {each.name: each for each in self.pools}
        for what, at in self.columns.items():
            if what[0] in ("x", "m"):
                high[at] = needs[what[1]].replicas
            elif what[0] == "g":
                pool = needs[what[1]]
                high[at] = int(pool.replicas * (1.0 - self.limits.terms(pool.service).least_fraction) + 1e-9)
            elif what[0] == "c":
                high[at] = sum(
                    each.devices for each in self.limits.commitments if (each.device, each.region) == (what[1], what[2])
                )
        for region in self.regions:
            for device, most in region.most_nodes.items():
                for size in (size for one, size in self.kinds if one == device):
                    high[self.columns["n", device, str(size), region.name]] = most
        return Bounds(low, high)

    def _rows(self) -> tuple[csr_array, Floats, Floats]:
        from scipy.sparse import csr_array

        rows: list[dict[int, float]] = []
        low: list[float] = []
        high: list[float] = []

        def row(cells: Mapping[int, float], least: float, most: float) -> None:
            rows.append(dict(cells))
            low.append(least)
            high.append(most)

        for pool in self.pools:
            cells = {at: 1.0 for what, at in self.columns.items() if what[0] in "xg" and what[1] == pool.name}
            row(cells, pool.replicas, pool.replicas)
        for region in self.regions:
            self._region_rows(region.name, region.quota_devices, region.most_nodes, row)
        for what, at in self.columns.items():
            if what[0] == "m":
                assert self.standing is not None
                stood = self.standing.in_region(what[1], what[2])
                row({at: 1.0, self.columns["x", what[1], what[2]]: 1.0}, stood, np.inf)
        if self.limits.budget_usd is not None and not self.is_loss:
            cells = {at: self.cost[at] for what, at in self.columns.items() if what[0] in "nc"}
            row(cells, -np.inf, self.limits.budget_usd - self.committed_usd)
        filled = [(number, column, value) for number, cells in enumerate(rows) for column, value in cells.items()]
        numbers, columns, values = zip(*filled, strict=True)
        shape = (len(rows), len(self.columns))
        return csr_array((values, (numbers, columns)), shape=shape), np.array(low), np.array(high)

    def _region_rows(self, region: str, quotas: Mapping[str, int], most_nodes: Mapping[str, int], row: object) -> None:
        add = row
        assert callable(add)
        for device, size in self.kinds:
            cells = {self.columns["n", device, str(size), region]: float(size)}
            for pool in self.pools:
                if (pool.device, pool.node_devices) == (device, size) and ("x", pool.name, region) in self.columns:
                    cells[self.columns["x", pool.name, region]] = -float(pool.replica_devices)
            add(cells, 0.0, np.inf)
        for device in {device for device, _ in self.kinds}:
            nodes = {self.columns["n", device, str(size), region]: size for one, size in self.kinds if one == device}
            if device in quotas:
                add({at: float(size) for at, size in nodes.items()}, -np.inf, quotas[device])
            if device in most_nodes:
                add(dict.fromkeys(nodes, 1.0), -np.inf, most_nodes[device])
            if ("c", device, region) in self.columns:
                paid = {at: float(size) for at, size in nodes.items()}
                add({**paid, self.columns["c", device, region]: -1.0}, 0.0, np.inf)

    def solved(self, objective: Floats, *, cap: float | None) -> Floats | None:
        from scipy.optimize import LinearConstraint, milp
        from scipy.sparse import csr_array

        matrix, low, high = self._rows()
        rows = [LinearConstraint(matrix, low, high)]
        if cap is not None:
            rows.append(LinearConstraint(csr_array(self.loss[None, :]), -np.inf, cap))
        whole = np.array([0 if what[0] == "c" else 1 for what in self.columns])
        found = milp(
            objective,
            constraints=rows,
            bounds=self._bounds(),
            integrality=whole,
            options={"time_limit": _SECONDS, "mip_rel_gap": _GAP},
        )
        return None if found.x is None else np.where(whole == 1, np.round(found.x), found.x)

    def placed(self, found: Floats) -> Placed:
        def values(kind: str) -> dict[tuple[str, ...], float]:
            return {what[1:]: float(found[at]) for what, at in self.columns.items() if what[0] == kind}

        placed = Placed(
            replicas={(p, r): round(v) for (p, r), v in values("x").items() if v > 0.5},
            given_up={p: round(v) for (p,), v in values("g").items() if v > 0.5},
            nodes={(d, int(s), r): round(v) for (d, s, r), v in values("n").items() if v > 0.5},
            committed_devices={(d, r): v for (d, r), v in values("c").items() if v > 1e-6},
            lost_usd=float(self.loss @ found),
            usd=self.committed_usd
            + sum(self.cost[at] * float(found[at]) for what, at in self.columns.items() if what[0] in "nc"),
        )
        self._check(placed)
        return placed

    def _check(self, placed: Placed) -> None:
        """The solution meets the constraints, whatever the solver's tolerances."""
        for pool in self.pools:
            stands = sum(each for (name, _), each in placed.replicas.items() if name == pool.name)
            if stands + placed.given_up.get(pool.name, 0) != pool.replicas:
                raise InternalError(law=f"every replica of {pool.name} is placed or dropped", left=stands, right=pool)
        for region in self.regions:
            for device, quota in region.quota_devices.items():
                used = sum(n * size for (d, size, r), n in placed.nodes.items() if (d, r) == (device, region.name))
                if used > quota:
                    raise InternalError(law=f"devices within the quota of {region.name}", left=used, right=quota)
