"""Maps over several cores or machines, handed to core functions as `map=`; run.py is what verbs open."""

from ullage.execute.pool import thread_map
from ullage.execute.run import Progress, RunContext, running, silent, today

__all__ = ["Progress", "RunContext", "running", "silent", "thread_map", "today"]
