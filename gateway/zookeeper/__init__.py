"""ZooKeeper: sessions with it, and the layout of the nodes that Kafka keeps there."""
