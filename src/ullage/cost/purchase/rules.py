"""What is bought without a program: all by the hour, all committed, or a fixed share of the peak."""

from __future__ import annotations

import math

from ullage.cost.purchase.instrument import Instrument
from ullage.cost.purchase.mix import Market, TermMix, TermOrder, expected_usd
from ullage.cost.purchase.need import NodeNeeds
from ullage.cost.purchase.program import starts_of

ALL_BY_HOUR, ALL_COMMITTED, FIXED_SHARE = "all on demand", "all committed", "70 % committed"
_SHARES = {ALL_COMMITTED: 1.0, FIXED_SHARE: 0.7}


def fixed_rules(needs: NodeNeeds, market: Market) -> tuple[TermMix, ...]:
    """The three, the committed ones by the term that makes them cheapest; without a term there is one."""
    found = [TermMix(name=ALL_BY_HOUR, uses_spot=False)]
    terms = [each for each in market.terms if each.term_months <= market.months]
    for name, share in _SHARES.items():
        mixes = [_renewed(name, share, each, needs, market) for each in terms]
        if mixes:
            found.append(min(mixes, key=lambda each: expected_usd(each, needs, market)))
    return tuple(found)


def _renewed(name: str, share: float, instrument: Instrument, needs: NodeNeeds, market: Market) -> TermMix:
    """This share of the busiest hour of every term: filled up at the start, and whenever something bought ends."""
    peaks = needs.monthly_peaks()
    have = TermMix(name="held").nodes(market.months, market.held)
    orders: list[TermOrder] = []
    for start in starts_of(instrument, market):
        begins = start == instrument.after_months
        if not begins and have[start] >= have[start - 1]:
            continue
        months = slice(start, start + instrument.term_months)
        nodes = math.ceil(share * int(peaks[months].max()) - 1e-9) - int(have[start])
        if nodes > 0:
            orders.append(TermOrder(instrument=instrument, start_months=start, nodes=nodes))
            have[months] += nodes
    return TermMix(name=name, orders=tuple(orders), uses_spot=False)
