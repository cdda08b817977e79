"""The command line: arguments in, printing out. No arithmetic, no loading."""
