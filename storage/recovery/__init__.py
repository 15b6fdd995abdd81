"""What is done to a log that a stop of any kind has left, before it is used: a clean stop, a kill, a power cut.

    open_log                   the steps, from the names in a directory to a log
    recovery_input             what is known before the first step
    interrupted_replacements   a compaction that a crash interrupted is ended
    scan                       after a crash: what lies behind the recovery point, and the three ways in which it ends
    quarantine                 bytes that are cut off are kept
    index_check                whether indexes are what they should be
    indexes                    indexes made again
    leader_epochs              leader epochs made again, and which segments hold older messages
    sync_failure_repair        a running log after a failed sync

After a clean stop the ends are looked at and no more; after a crash what may not be on the disk is scanned. What can be
derived (indexes, producers' states, epochs) is made again where it is missing.

All of it are generators that yield after every batch, so that a thread can do it in slices. Nothing but the files of
the partition is touched.
"""
