"""SASL: the mechanisms of Apache Kafka, each a sans-IO exchange, and the exchange of a whole connection."""
