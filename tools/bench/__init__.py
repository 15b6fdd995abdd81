"""The bench: Headgate beside Apache Kafka, measured in turns. `docs/performance.md` says what the figures mean."""
