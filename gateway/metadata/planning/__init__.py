"""Plans of metadata changes: pure functions that check a wish against an image and return the records of the change."""
