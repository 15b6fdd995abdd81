"""The membership of this broker in a cluster with ZooKeeper: its session, its controllership, its registration."""
