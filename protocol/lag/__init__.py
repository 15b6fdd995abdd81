"""The lag of consumer groups, sans-IO: one definition for the broker, the tools and Spark's jobs.

measurement.py   lag in records and in seconds
oldest_unread.py the time of the oldest unread record, in fetched batches
verdicts.py      how a group has been doing, judged by its last commits
"""
