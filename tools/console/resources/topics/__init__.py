"""Topics, one topic with its readers and writers, and the log directories that hold the replicas."""
