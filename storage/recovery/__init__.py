"""Recovery of a log before its first use, after a clean stop, a kill or a power cut; repair after a failed sync.

    open_log                   the steps, from the names in a directory to a log
    recovery_input             the known values of a partition before the first step
    interrupted_replacements   completes a compaction that a crash interrupted
    scan                       after a crash: checks the log from the recovery point on; three results
    quarantine                 keeps the bytes that recovery cuts off
    index_check                whether the indexes match the batches
    indexes                    rebuilds indexes
    leader_epochs              rebuilds leader epochs, and finds the segments in a legacy format
    sync_failure_repair        repairs a running log after a failed sync

After a clean stop, recovery reads the ends of the segments only. After a crash, recovery scans everything that may not
be on the disk. Recovery rebuilds missing derived state: indexes, producer state, leader epochs.

Each operation is a generator that yields after every batch, so that a thread can run the operation in slices. Recovery
changes the files of the partition only.
"""
