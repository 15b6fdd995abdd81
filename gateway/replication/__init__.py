"""Replicas: partitions as their leader sees them, and the fetches of their followers."""
