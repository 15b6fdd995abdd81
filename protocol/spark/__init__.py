"""The checkpoint of a Spark streaming query, sans-IO, for the broker and for Spark's jobs.

checkpoint_files.py   each file: text to values
checkpoint.py         all files: where the query is
"""
