"""Maps over several cores or machines, handed to core functions as `map=`."""

from ullage.execute.pool import process_map, thread_map

__all__ = ["process_map", "thread_map"]
