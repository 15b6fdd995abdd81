"""The format `headgate`: a Python Data Source with the columns and options of Spark's `kafka` format.

    spark.read.format("headgate").option("kafka.bootstrap.servers", "127.0.0.1:9092").option("subscribe", "t").load()

`data_source.py` and `readers.py` alone know Spark. Planning is pure: it asks a `LogReader` and gives ranges of offsets.
"""
