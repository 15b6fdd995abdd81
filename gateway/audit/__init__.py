"""The audit log: logins, refusals, and changes of the cluster by clients, as JSON lines in a file.

audit_events.py   the lines as values, pure
changes.py        the changes that a request has made, pure
repeat_limits.py  bounds on what a peer can have written, pure
audit_file.py     the file
audit_log.py      what the parts of the broker report to
"""
