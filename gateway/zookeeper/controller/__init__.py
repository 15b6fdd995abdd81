"""The controller's work in ZooKeeper: its election, topics, leaders, orders."""
