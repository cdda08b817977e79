"""Our own files: plan.yaml, read strictly, with human units.

strict_yaml.py   YAML as plain text values, each with its line; nothing guessed
quantities.py    fields that are written with their unit
plan_file.py     what a plan file may say, and its JSON Schema
plan_spec.py     a plan file as the value the core plans from
"""
