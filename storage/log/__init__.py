"""One partition's log: its segments, appends, reads, flushes, producers and leader epochs."""
