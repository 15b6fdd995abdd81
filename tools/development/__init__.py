"""The programs of `make` for developers; not part of the distribution."""
