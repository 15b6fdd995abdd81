"""Pipelines of readers and the exactly-once sink: replay a topic, mirror a cluster.

Both copy ranges of offsets in numbered batches. The marker of the sink says how far a copy has come, so a copy that
was stopped at any point goes on where it was, without a checkpoint.
"""
