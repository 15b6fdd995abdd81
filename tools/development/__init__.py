"""What `make` runs on a developer's machine; not part of the distribution."""
