"""The cluster's metadata (topics, partitions, configs, features) and their store."""
