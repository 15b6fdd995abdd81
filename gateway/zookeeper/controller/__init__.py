"""What a broker does in ZooKeeper only while it is the controller: the election, topics, leaders, orders."""
