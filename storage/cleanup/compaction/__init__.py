"""Compaction of one log: segments written anew without the records that a later one of their key stands for.

`cleaner` decides, `replacement` puts a new segment in the place of old ones; between them stands this package:

    job             one compaction as plain values: what a log gives for it, and what comes back
    keys            the keys of the dirty part, each with its last offset
    batch_cleaner   what becomes of one batch
    work            the work on a job: the keys, then segments written anew
    rounds          a job made, worked off by whoever computes, and taken up by its log

`batches`, `keys`, `batch_cleaner` and `work` only read closed segments and write files named `.cleaned`, in slices, so
that they may run in a thread or in a process of their own, which is given a `Job` and no log. The rest is the loop's.
Memory: the table of keys, within `Job.table_bytes`, and a few batches; where the table is full, the rest of the dirty
part is left for the next time.

Batches keep their offsets, producer fields, codec and timestamps. What stays whole is copied as it is. A batch that
cannot be read to its end, which `headgate.validate.records=header` lets in, stays as it is too, and its keys count for
nothing. A wrong CRC ends the compaction: it would be made right. Source: Apache Kafka's `Cleaner` and
`MemoryRecords.filterTo`.
"""
