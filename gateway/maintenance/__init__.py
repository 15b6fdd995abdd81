"""What recurs: flushes, retention, compaction, the health of log directories, the opening of logs."""
