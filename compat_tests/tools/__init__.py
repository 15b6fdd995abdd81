"""`headgate` on the command line and Kafka's own tools, from outside."""
