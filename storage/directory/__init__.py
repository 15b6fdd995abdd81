"""Log directories, the log manager over all of them, and the creation and deletion of partitions."""
