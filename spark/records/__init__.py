"""Stored batches to Arrow columns: the columns of Spark's `kafka` format, without Python code for each record."""
