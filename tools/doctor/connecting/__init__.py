"""One address of a broker, as a client dials it: name, port, protocol, TLS, login. Any Kafka.

address.py       the rows of one address, in the order in which a connection is made
name.py          the addresses of a host's name, and which of them accept
protocol.py      which protocol a port speaks, by the first bytes of its answers
certificate.py   the certificate of a broker, and of this client: names, days
login.py         what a listener offers for a login
"""
