"""The nodes of Kafka 3.9 in ZooKeeper mode: paths, and data as typed values. Pure; docs/zookeeper.md has the table.

Every kind of node is a NamedTuple with `path`, `encode` and `decode`. `encode` gives the bytes of Kafka 3.9. `decode`
accepts the data of Kafka 0.8.2 to 3.9; other data raise `InvalidNode`, a ValueError with the path and a reason.
"""
