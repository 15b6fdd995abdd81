"""The metadata of a cluster in ZooKeeper: read, watched, changed, and transferred to and from a broker's own log."""
