"""Named clients of every age against one broker: what a row is, and the rows."""
