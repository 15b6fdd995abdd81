"""Time, threads and waiting: the runtime of the synchronous core."""
