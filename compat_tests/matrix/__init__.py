"""Named clients of every age against one broker: what a row is, the rows, and a proxy that notes what they ask for."""
