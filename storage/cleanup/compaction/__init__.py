"""Compaction of one log: rewrites segments without the records that have a later record with the same key.

`batches`, `keys`, `batch_cleaner` and `computation` only read closed segments and write files named `.cleaned`, in
slices. So they may run in a thread, or in another process that has a `Job` but no log. Everything else runs on the
loop. Memory: the table of keys, within `Job.table_bytes`, and a few batches. If the table is full, the next compaction
handles the rest of the dirty part.

Batches keep their offsets, producer fields, codec and timestamps. A batch that keeps all records is copied unchanged.
`headgate.validate.records=header` admits batches that cannot be decoded to their end; such a batch stays unchanged,
and its keys do not count. A wrong CRC ends the compaction, as a rewrite would make the CRC valid. Source: Apache
Kafka's `Cleaner` and `MemoryRecords.filterTo`.
"""
