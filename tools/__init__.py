"""Programs beside the broker: they import protocol and storage, never gateway."""
