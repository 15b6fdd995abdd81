"""Histories of stock clients under faults: what each client asked and was told, recorded and then judged."""
