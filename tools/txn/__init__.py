"""`headgate txn`: transactions of a cluster, those that hang, and their abort (KIP-664).

transactions.py       transactional ids, as their coordinators know them
open_transactions.py  open transactions, as the leaders of partitions know them; which of them hang; the abort of one
actions.py            one function for each command
command.py            options, output, exit codes
"""
