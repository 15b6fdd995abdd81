"""The census beside real clients: its verdicts, and what Apache Kafka 4.1 does with each client."""
