"""Tests of the sessions with ZooKeeper, and the model of it that other rooms' tests use."""
