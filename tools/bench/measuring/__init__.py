"""Measuring: brokers and topics under test, the C programs, the kernel's counters, the gauge, figures."""
