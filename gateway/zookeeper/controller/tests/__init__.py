"""Tests of the metadata in ZooKeeper."""
