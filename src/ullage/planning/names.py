"""Names that stay unique when one plan has several pools.

A stage names its figures as if its pool were the only one: `memory.kv_tokens`. Beside another pool that name would
mean two numbers, so every number that belongs to one pool alone is called by the pool's name first:
`small.memory.kv_tokens`. What all pools share (the demand, a device's data sheet) keeps its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ullage.evidence import Assumption, Figure, Source, each_once

Named = Figure | Assumption


def shared_names(service: Iterable[Named], pools: Iterable[Iterable[Named]]) -> dict[str, Named]:
    """The numbers that mean the same to everyone: those of the service, and assumptions on which the pools agree."""
    shared = _by_name(service)
    seen: dict[str, Named] = {}
    disputed: set[str] = set()
    for roots in pools:
        for name, each in _by_name(roots).items():
            if isinstance(each, Figure) or seen.setdefault(name, each) != each:
                disputed.add(name)
    for name, each in seen.items():
        if name not in disputed:
            shared.setdefault(name, each)
    return shared


class PoolNames:
    """Renames the numbers of one pool; a number met twice is renamed once."""

    def __init__(self, pool: str, shared: Mapping[str, Named]) -> None:
        self._prefix, self._shared = f"{pool}.", shared
        # The value beside its new self keeps the old one alive, so that its id is not given to another.
        self._known: dict[int, tuple[Named, Named]] = {}

    def __call__(self, each: Named) -> Named:
        if id(each) not in self._known:
            self._known[id(each)] = (each, self._renamed(each))
        return self._known[id(each)][1]

    def figures(self, figures: Mapping[str, Figure]) -> dict[str, Figure]:
        """The figures under the keys by which the stages know them, each with its new name."""
        found = {key: self(figure) for key, figure in figures.items()}
        return {key: figure for key, figure in found.items() if isinstance(figure, Figure)}

    def _renamed(self, each: Named) -> Named:
        name = each.name if self._keeps(each) else f"{self._prefix}{each.name}"
        if isinstance(each, Assumption):
            return each if name == each.name else replace(each, name=name)
        inputs = tuple(self(one) for one in each.inputs)
        unchanged = name == each.name and all(new is old for new, old in zip(inputs, each.inputs, strict=True))
        return each if unchanged else replace(each, name=name, inputs=inputs)

    def _keeps(self, each: Named) -> bool:
        if each.name.startswith(self._prefix):
            return True
        same = self._shared.get(each.name)
        return same is not None and (same is each or (type(same) is type(each) and same.value == each.value))


def _by_name(roots: Iterable[Named]) -> dict[str, Named]:
    return {each.name: each for each in each_once(roots) if not isinstance(each, Source)}
