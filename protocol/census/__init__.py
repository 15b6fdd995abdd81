"""The census of clients, sans-IO: its records, and what each client would meet on a release of Apache Kafka.

kafka_versions.py   the versions of APIs by release, from Kafka's own definitions
verdicts.py         which used versions a release refuses, lacks, or stores in an old format
"""
