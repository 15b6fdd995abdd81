"""The units of work that several processes share, and their order."""

from __future__ import annotations

from compat_tests.conftest import LONG, TOGETHER, unit_of_work
from compat_tests.harness.apache_kafka import ROOT


def test_tests_that_share_a_fixture_are_one_unit_of_work() -> None:
    assert unit_of_work("compat_tests/spark/test_kafka_batch.py::test_one") == unit_of_work(
        "compat_tests/spark/test_kafka_streaming.py::two"
    )
    assert unit_of_work("compat_tests/matrix/test_matrix.py::test_the_oldest[a]") != unit_of_work(
        "compat_tests/matrix/test_matrix.py::b"
    )
    assert (
        unit_of_work("compat_tests/groups/test_groups.py::test_one") == "compat_tests/groups/test_groups.py::test_one"
    )


def test_every_file_that_is_named_is_there() -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "compat_tests").glob("*/test_*.py")}
    for group in TOGETHER:
        for beginning in (group,) if isinstance(group, str) else group:
            assert any(file.startswith(beginning.partition("::")[0]) for file in files), beginning
    assert {f"compat_tests/{name}.py" for name in LONG} <= files
