"""What coordinates: producer ids now, groups and transactions later. The machines are pure: they import `protocol` only."""
