"""Recurring work: flushes, retention, compaction, the health of log directories, log loading."""
