"""Tests of the port that a broker holds for the console."""
