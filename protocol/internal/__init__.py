"""Records of internal topics, in the layout of Apache Kafka."""
