"""Our own files: plan.yaml, read strictly, with human units.

strict_yaml.py      YAML as plain text values, each with its line; nothing guessed
sections/           what each section may contain: a field is a key, with its meaning, default and the figure it moves
plan_file.py        the whole plan file, and its JSON Schema
portfolio_file.py   the file of a portfolio of services
faults.py           faults of a file as errors: line, key, value, problem, fix
keys.py             the sections as one table of keys, and a key found by its dotted name
starter.py          the commented starter that `ullage init` writes
plan_edit.py        a plan file with other values, everything else as it was typed
plan_record.py      a plan that was saved as JSON, read back
facts_directory.py  a user's own facts, in a directory
whole.py            the only place that writes files
"""
