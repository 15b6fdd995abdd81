"""Offsets of groups in ZooKeeper: OffsetCommit 0 and OffsetFetch 0, and groups with offsets in both stores."""
