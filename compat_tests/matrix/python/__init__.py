"""The programs of rows that are Python's, and librdkafka driven from Python.

lines.py is the command line that they share; rdkafka.py is as much of librdkafka's interface as librdkafka.py needs.
old/ pins the old packages, each of which `make install` unpacks into a directory of its own in build/old.
"""
