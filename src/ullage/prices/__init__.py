"""The price book as values.

book.py         what a book holds
purchase.py     the ways to buy a device-hour
items.py        the items that are priced by the unit, and the unit of each
wanted.py       the request for a price: item, place, date, purchase
lookup.py       the price of anything
offers.py       the offers of a device-hour, and the cheapest
unit_prices.py  the price of a token, and of one unit of an item
effective.py    USD after discount, amortisation and exchange
own_prices.py   prices that the user stated or was billed, which come before lists
age.py          which prices are too old to trust
price_list.py   a price file as it was read: its book, and what was dropped, by reason
packaged.py     the book that comes with ullage
"""
