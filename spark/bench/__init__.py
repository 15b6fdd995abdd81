"""The marks of Spark's ways to topics: records a second of each job, beside Spark's `kafka` format on Apache Kafka."""
