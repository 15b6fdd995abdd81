"""`headgate log`: the files of a data directory, Headgate's or Apache Kafka's, without a broker.

command.py                 options, output, exit codes
actions.py                 one function for each command
data_directory.py          the meaning of a path: a data directory, partitions, one file
segment_reader.py          batches and records of segments
auxiliary_files.py         indexes, producer snapshots, epochs, checkpoints as rows
offset_gaps.py             offsets that no consumer sees, and the reasons
verification/              findings about a partition's files
repairs.py                 repair of damage, step by step
listing.py                 partitions and segments of a data directory
overlay.py                 the file system, read only: only a repair writes to the disk
"""
