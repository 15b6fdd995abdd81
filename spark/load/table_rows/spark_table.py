"""The rows of a table of Delta or Iceberg, counted in Spark for its verification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headgate.protocol.topic_partition import TopicPartition
from headgate.spark.load.table_rows.verification import BUCKET, Bucket, Ranges, Tally


class SparkTableRows:
    """The offsets of a frame of a table, for its verification."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def tallies(self, without: Ranges) -> Iterator[tuple[Bucket, Tally]]:
        from pyspark.sql import functions as f

        distance = f.expr(f"offset % {BUCKET}")
        found = self._without(without).groupBy("topic", "partition", f.expr(f"offset div {BUCKET}").alias("bucket"))
        sums = found.agg(f.count("*"), f.countDistinct("offset"), f.sum(distance), f.sum(distance * distance))
        for topic, number, bucket, *figures in sums.collect():
            yield (TopicPartition(topic, number), bucket), Tally(*figures)

    def offsets(self, bucket: Bucket, without: Ranges) -> Mapping[int, int]:
        from pyspark.sql import functions as f

        (topic, number), place = bucket
        is_in = (f.col("topic") == topic) & (f.col("partition") == number) & f.expr(f"offset div {BUCKET} = {place}")
        return dict(self._without(without).where(is_in).groupBy("offset").count().collect())

    def _without(self, ranges: Ranges) -> Any:
        from pyspark.sql import functions as f

        frame = self._frame.select("topic", "partition", "offset")
        for (topic, number), intervals in ranges.items():
            for start, end in intervals:
                is_in = f.col("offset").between(start, end - 1)
                frame = frame.where(~((f.col("topic") == topic) & (f.col("partition") == number) & is_in))
        return frame
