"""The bench: measures Headgate and Apache Kafka in turns. `docs/performance.md` explains the figures."""
