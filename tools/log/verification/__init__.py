"""Checks of a partition's files: batches, indexes, producer snapshots, leader epochs, overlapping segments."""
