"""The transaction coordinator: the state machine of `__transaction_state`, and its wiring to the broker."""
