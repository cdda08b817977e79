"""Our own files: plan.yaml, read strictly, with human units.

strict_yaml.py   YAML as plain text values, each with its line; nothing guessed
sections/        what each section may say: a field is a key, with its meaning, default and the figure it moves
plan_file.py     the whole file, its faults in words, and its JSON Schema
keys.py          the sections as one table of keys, and a key found by its dotted name
"""
