"""Readings: the partitions that a group has something to do with."""

from headgate.gateway.lag.readers import Committed, GroupReading, OwningMember

OWNER = OwningMember("m", "c", "h")


def test_each_partition_comes_once() -> None:
    committed = Committed(5, 0)
    owners = {("t", 0): OWNER, ("t", 1): OWNER, ("u", 0): OWNER}
    reading = GroupReading("g", "classic", owners=owners, offsets={"t": {0: committed}})
    assert list(reading.partitions()) == [("t", 0, committed), ("t", 1, None), ("u", 0, None)]
