"""Partitions as their leader sees them."""
