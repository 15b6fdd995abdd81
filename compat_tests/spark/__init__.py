"""Spark in one process: both formats, loads, the exactly-once sink, pipelines."""
