"""Spark over Kafka's protocol: sessions and options for the built-in `kafka` format. PySpark is imported late."""
