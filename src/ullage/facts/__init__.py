"""Dated, sourced facts about devices, models, engines and prices."""
