"""Groups of consumers, classic and of KIP-848: pure machines over the records of a shard."""
