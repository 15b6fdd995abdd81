"""Loads into tables of the last value of each key."""
