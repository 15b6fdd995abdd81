"""The census of clients, sans-IO: its records, and what each client would meet on a release of Apache Kafka.

rows.py             a client and its use of API versions: values
records.py          the records of the topic `__headgate_census`
row_fields.py       a row as JSON
kafka_versions.py   the versions of APIs by release, from Kafka's own definitions
verdicts.py         which used versions a release refuses, lacks, or stores in an old format
"""
