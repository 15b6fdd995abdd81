"""The store: a partition's log in segment files, laid out as Apache Kafka's.

Synchronous; knows no network and no event loop.
"""
