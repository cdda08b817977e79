"""How to buy the nodes of a fleet: by the hour, for a term, on spot, or as one's own.

instrument.py   one way to buy a node: its price, its term, what may go wrong with it
need.py         how many nodes each hour of each month needs, over many drawn futures
mix.py          what is bought when, and what that comes to in a future
program.py      the mix of least expected cost, by integer program
rules.py        what people do without one: all by the hour, all committed, a fixed share
regret.py       what a mix loses where demand or prices come out otherwise
purchase.py     the whole answer for one pool
terms.py        the instruments that a price book has of a device
"""
