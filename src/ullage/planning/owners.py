"""Owners of inputs: by section of the plan file, or by key; the nearest owner above a key counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_WORDS = {"mean_rate": "rate", "peak_hour_ratio": "peak_hour", "longest_context": "longest_context"}
_LENGTH = re.compile(r"^(prompt|output)_p[\d.]+$")
_SLO = re.compile(r"^(ttft|tpot|itl|e2e)_p[\d.]+$")


@dataclass(frozen=True, kw_only=True)
class Owners:
    """Owners by dotted key. `classes` and `pools` are the plan's own names, which inputs are named by."""

    by_key: Mapping[str, str] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()

    @property
    def are_given(self) -> bool:
        return bool(self.by_key)

    def of_key(self, key: str) -> str | None:
        """The owner of a key: its own, or that of the nearest section around it.

        >>> owners = Owners(by_key={"workload": "ana", "workload.classes.chat": "ben"})
        >>> owners.of_key("workload.classes.chat.rate"), owners.of_key("workload.events"), owners.of_key("prices")
        ('ben', 'ana', None)
        """
        parts = key.split(".")
        above = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((self.by_key[each] for each in above if each in self.by_key), None)

    def of_input(self, name: str) -> str | None:
        """The owner of an input by the name that a plan lists it under."""
        return self.of_key(self.key_of(name))

    def key_of(self, name: str) -> str:
        """The key that states an input.

        >>> Owners(classes=("chat",)).key_of("chat.prompt_p95"), Owners(pools=("big",)).key_of("big.pool.device")
        ('workload.classes.chat.prompt', 'pools.big.device')
        """
        first, _, rest = name.partition(".")
        if first in self.classes:
            word = "slo" if _SLO.match(rest) else _LENGTH.sub(r"\1", rest)
            return f"workload.classes.{first}.{_WORDS.get(word, word)}"
        if first in self.pools and rest.startswith("pool."):
            return f"pools.{first}.{rest.removeprefix('pool.')}"
        if first == "price":
            return f"prices.{rest}"
        return f"evidence.{rest}" if first == "calibration" else name
