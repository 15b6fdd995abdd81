"""Record batches: the bytes that producers write, that the log stores and that consumers read."""
