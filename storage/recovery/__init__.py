"""What is done to a log that a stop of any kind has left, before it is used: a clean stop, a kill, a power cut.

    open_log        the steps, from the names in a directory to a log
    found           what is known before the first of them
    scan            after a crash: what lies behind the recovery point, and the three ways in which it ends
    aside           bytes that are cut off are kept
    soundness       whether indexes are what they should be
    indexes         these made again
    leader_epochs   the same with leader epochs, and which segments hold older messages

After a clean stop the ends are looked at and no more; after a crash what may not be on the disk is scanned. What can be
derived (indexes, producers' states, epochs) is made again where it is missing.

All of it are generators that yield after every batch, so that a thread can do it in slices. Nothing but the files of
the partition is touched.
"""
