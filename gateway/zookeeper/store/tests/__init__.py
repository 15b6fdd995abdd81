"""Tests of the metadata store with ZooKeeper."""
