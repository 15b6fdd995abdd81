"""`headgate spark table`: a topic as a table of last values, merged run by run. The merge is in `load/last_values`."""
