"""SASL for both sides: JAAS lines and the keys of SCRAM; and the client's side of each mechanism, sans-IO."""
