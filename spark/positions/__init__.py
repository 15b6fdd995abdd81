"""Positions: where readers are, and how a reader goes on where another one was.

places.py       checkpoint: group: zookeeper: table: time: file:, read as offsets
checkpoint.py   the folder of a checkpoint          topic_ids.py     ids noted before, for a later check
loads.py        the output of a load                lag.py           how far readers are behind
check.py        what a restart would lose           transfer.py      offsets from one place to another
listener.py     reports of Spark to a committer     committer.py     progress of a query to a group
history.py      a line for each batch               plot.py          lag, throughput, batch times as a picture
watch.py        bars on a terminal                  command.py       `headgate spark lag | check | offsets`
actions.py      a function for each command
"""
