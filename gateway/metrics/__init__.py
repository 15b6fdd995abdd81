"""Metrics of a broker: tables of their names, surveys before a reading, and the text of Prometheus."""
