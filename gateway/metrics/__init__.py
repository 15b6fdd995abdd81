"""What a broker tells of itself in numbers: tables of names, surveys before a reading, and the text of Prometheus."""
