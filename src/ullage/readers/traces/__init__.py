"""Request logs and traces in, one file per format; `open.open_trace` is the door, `table.TRACE_READERS` the list."""
