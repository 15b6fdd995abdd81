"""Tests of the controller in ZooKeeper."""
