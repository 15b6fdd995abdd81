"""Positions: the offsets of readers, and their transfer from one reader to another.

locations.py    checkpoint: group: zookeeper: table: time: file:, read as offsets
checkpoint.py   the folder of a checkpoint          topic_ids.py     ids noted before, for a later check
loads.py        the output of a load                lag.py           the lag of readers
check.py        lost records of a restart           transfer.py      offsets from one location to another
listener.py     reports of Spark to a committer     committer.py     progress of a query to a group
history.py      a line for each batch               plot.py          lag, throughput, batch times as a picture
watch.py        bars on a terminal                  command.py       `headgate spark lag | check | offsets`
actions.py      a function for each command
"""
