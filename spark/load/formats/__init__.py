"""The formats of values: JSON and Avro by Spark's functions, Protobuf by `protobuf`; Confluent's prefix before each."""
