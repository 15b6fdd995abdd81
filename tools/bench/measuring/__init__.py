"""What measures: brokers and topics to measure on, the C programs, the kernel's counters, the gauge, figures."""
