"""Tests of the broker under a service manager."""
