"""What the cluster is: topics, partitions, configs, features; and where that is kept."""
