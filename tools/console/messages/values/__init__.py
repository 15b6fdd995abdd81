"""Bytes of keys, values and headers as people read them, within budgets: data of any producer is hostile."""
