"""Programs that consume, transform and produce in transactions, and the check that each record is copied once."""
