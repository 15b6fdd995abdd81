"""What a log no longer has to keep: retention, and compaction."""
