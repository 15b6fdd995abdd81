"""Time, threads and waiting: what the synchronous core runs on."""
