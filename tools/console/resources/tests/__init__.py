"""Tests of the resources, over a modelled cluster."""
