"""The resources of the console: each is a function from a `Cluster` and parameters to JSON; no module prints.

A value that is not known is null, with a reason: `"missing": {"sizes": "DescribeLogDirs: ..."}`.
A refused part never fails the answer. Names of fields end with their unit.
"""
