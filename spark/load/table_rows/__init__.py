"""The rows of a table of Delta or Iceberg against the manifests of its loads, for `headgate spark verify`."""
