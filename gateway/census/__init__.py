"""The census: which clients a broker has, by name, software and address, and which versions of APIs they use.

census.py             counts of connections become rows, once an interval; the interval's writes
census_table.py       the rows, and their bounds: pure
census_topic.py       the topic `__headgate_census`
census_json.py        `/v1/census.json`
connections_json.py   `/v1/connections.json`: the open connections
"""
