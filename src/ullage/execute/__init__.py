"""Maps over several cores or machines, handed to core functions as `map=`; run.py is what verbs open."""

from ullage.execute.pool import process_map, thread_map
from ullage.execute.run import Progress, RunContext, running, silent, today

__all__ = ["Progress", "RunContext", "process_map", "running", "silent", "thread_map", "today"]
