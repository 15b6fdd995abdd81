"""Spark over topics: `headgate spark`, sessions, the format `headgate`, loads, writes, positions."""
