"""Real ZooKeepers with old consumers and tools, and migration away from them."""
