"""`headgate log`: the files of a data directory, Headgate's or Apache Kafka's, without a broker.

`command.py` has the options; `places.py` finds what a path means; `reading.py` batches and records of segments,
`small_files.py` everything else that lies beside them; `gaps.py` which offsets no consumer sees, and why; `checks.py`
what is wrong; `repairs.py` what is done about it; `listing.py` what there is. All of them read through `overlay.py`, so
that nothing is written but by a repair.
"""
