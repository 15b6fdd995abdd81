"""What coordinates: producer ids now, groups and transactions later. They import `protocol` alone."""
