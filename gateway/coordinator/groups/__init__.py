"""The group coordinator: the state machine of `__consumer_offsets`, and its wiring to the broker."""
