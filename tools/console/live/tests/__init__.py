"""Tests of live figures: pure, with clocks that the tests move."""
