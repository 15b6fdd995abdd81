"""ZooKeeper, as a broker meets it: each server by `srvr`, then one session of the broker's own client."""
