"""`headgate census`: the clients of a cluster, and which of them a release of Kafka would break.

reading.py   the rows of the topic `__headgate_census`, over the wire
report.py    the text about each client: pure
command.py   the command
"""
