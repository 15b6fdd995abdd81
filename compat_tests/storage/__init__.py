"""Logs on disk: kills, power cuts, full disks, starts, directories of Apache Kafka."""
