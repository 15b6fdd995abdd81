"""What `headgate doctor` and `headgate bundle` ask of the broker's own code: settings, masked, and ZooKeeper.

The commands are tools, and tools know nothing of the broker: they get plain values from two functions. Nothing here
starts a broker, writes a file, or changes ZooKeeper.
"""
