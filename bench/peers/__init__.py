"""The same question to other planners, each from PyPI in an environment of its own (`make bench-peers`).

None of them is a dependency. What needs another Python, does not install or cannot be asked is listed with the reason.
"""
