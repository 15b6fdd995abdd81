"""Removal of old records: retention and compaction."""
