"""The price book as values.

book.py         what a book holds; purchase.py: the ways to buy; items.py: what is priced by the unit
wanted.py       what a price is asked for
lookup.py       the price of anything; offers.py: device-hours; unit_prices.py: tokens and items
provisioned.py  how many of a provider's reserved units a load needs
effective.py    USD after discount, amortisation and exchange
own_word.py     what the user says stands before lists
age.py          which prices are too old to trust
price_list.py   a price file as it was read: its book, and what was dropped, by reason
change.py       what a change of prices does to one use, item by item
packaged.py     the book that comes with ullage
"""
