"""The consumer group protocol of KIP-848, and groups that migrate between the two protocols. Pure."""
