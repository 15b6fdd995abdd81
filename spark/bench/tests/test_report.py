"""The lines of the table."""

from headgate.spark.bench.report import Run, lines


def test_ratios_are_of_the_same_round() -> None:
    runs = {
        "kafka": [Run(10, 2, 8), Run(40, 3, 8), Run(20, 4, 8)],
        "wire": [Run(5, 1, 4), Run(10, 1, 4), Run(8, 1, 4)],
    }
    head, kafka, wire = lines(runs, 10_000_000)
    assert head.split()[:2] == ["job", "M"]
    assert kafka.split() == ["kafka", "0.50", "3.00", "8.00"]
    assert wire.split()[:4] == ["wire", "1.25", "1.00", "4.00"]
    assert "2.50 of kafka (2; 3)" in wire
    assert "kafka-tuned" not in wire


def test_a_mark_may_bound_the_cpu_of_the_broker() -> None:
    runs = {
        "kafka": [Run(10, 2, 8), Run(10, 4, 8), Run(10, 4, 8)],
        "kafka-from-headgate": [Run(10, 1, 8), Run(10, 1, 8), Run(10, 3, 8)],
    }
    assert list(lines(runs, 1_000_000))[2].endswith("1.00 of kafka (0.95; 1.1), broker's CPU 0.50 (at most 0.95; 0.8)")
