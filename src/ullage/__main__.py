"""`python -m ullage` is `ullage`."""

from ullage.cli import main

main()
