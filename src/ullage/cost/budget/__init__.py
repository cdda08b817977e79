"""Budgets: what the months to come cost, with a band, and why months differ.

month_bill.py   the bill of a month: its requests, its fleet, its prices
budget.py       months of many futures as one budget: P10, P50, P90, events, why it differs from today's bill
variance.py     a month that is over: what was paid against what was planned, by cause
"""
