"""The exactly-once sink: each batch of a query is one transaction of Kafka, with a marker of the batch inside.

The driver has the transactional id; tasks encode rows to record batches and write them with the driver's producer id
and epoch, one task for each target partition.
"""
