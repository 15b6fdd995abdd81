"""The census: which clients a broker has, by name, software and address, and which versions of APIs they use.

connections_json.py   `/v1/connections.json`: the open connections
"""
