"""The metadata of a cluster in ZooKeeper: read, followed, changed, and carried to and from a broker's own log."""
