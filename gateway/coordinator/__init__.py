"""The coordinator runtime: state machines over the partitions of an internal topic; and producer ids."""
