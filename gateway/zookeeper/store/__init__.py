"""The metadata store of a broker with ZooKeeper: its changes, and what it reads again."""
