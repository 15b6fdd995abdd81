"""Tests of offsets in ZooKeeper."""
