"""`headgate groups`: consumer groups and their offsets, of Headgate or of any Kafka broker since 0.10.

command.py         options, output, exit codes
actions.py         one function for each command
members.py         groups and their members         offsets.py       committed offsets, ends of partitions
oldest_unread.py   the oldest unread record         lag.py           all of these as rows
arguments.py       targets of a reset, CSV files    reset.py         a change of offsets: plan, check, apply
deletion.py        deleted groups and offsets, and why not
lag_options.py     options of commands that show lag
export_format.py   offsets as JSON                  zookeeper_text.py the text of Kafka's ExportZkOffsets
migration.py       ZooKeeper and back, pure          migrate.py       its commands
stores.py          offsets in ZooKeeper, settings of groups
"""
