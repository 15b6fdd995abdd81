"""Recovery of a log before its first use, after a clean stop, a kill or a power cut; repair; truncation in use.

After a clean stop, recovery reads the ends of the segments only. After a crash, recovery scans everything that may not
be on the disk. Recovery rebuilds missing derived state: indexes, producer state, leader epochs.

Each operation is a generator that yields after every batch, so that a thread can run the operation in slices. Recovery
changes the files of the partition only.
"""
