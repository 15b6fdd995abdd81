"""The census: which clients a broker has, by name, software and address, and which versions of APIs they use.

request_counts.py     the counts of requests on a connection, one addition a request
connections_json.py   `/v1/connections.json`: the open connections
"""
