"""Tests of the resources about the cluster."""
