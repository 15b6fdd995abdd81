"""Coordinators: groups with their offsets, and producer ids. The machines import `protocol` alone."""
