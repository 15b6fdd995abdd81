"""The settings of the HTTP listeners: their addresses, and the older names that are read for one release."""
