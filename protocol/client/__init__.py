"""The client's side of the protocol, sans-IO: a blocking program and a readiness engine can both drive it."""
