"""Makes the format `headgate` known: Spark imports every package named `pyspark_*` and takes its DefaultSource."""

from headgate.spark.source.data_source import HeadgateDataSource as DefaultSource

__all__ = ["DefaultSource"]
