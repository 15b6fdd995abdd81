"""`headgate groups`: consumer groups and their offsets, of Headgate or of any Kafka broker since 0.10.

command.py     options, output, exit codes
cluster.py     whom to ask: coordinators, leaders; asking again what is not settled yet
members.py     groups and who is in them            offsets.py   committed offsets, ends of partitions
oldest.py      the oldest unread record             lag.py       all of that as rows
target.py      where to: words, times, durations    reset.py     a change of offsets: planned, checked, made
transfer.py    offsets as JSON, out and in
"""
