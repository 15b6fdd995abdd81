from __future__ import annotations

import pytest

from headgate.tools.development import tidy
from headgate.tools.development.tidy import (
    LineCount,
    changed_logs,
    exists,
    function_lengths,
    misnamed,
    named_modules,
    old_imports,
    over_budget,
    places,
    scraps,
    silenced_seams,
    strays,
    untested,
    wide_lines,
)

LIMITS = (10, 50, 70)


def lengths(*lines: int) -> list[LineCount]:
    return [LineCount(f"file.py:{number} f", count) for number, count in enumerate(lines)]


def test_a_function_is_measured_from_def_to_its_last_line() -> None:
    source = "@decorated\ndef outer():\n    async def inner():\n        pass\n    return inner\n"
    assert list(function_lengths("a.py", source)) == [LineCount("a.py:2 outer", 4), LineCount("a.py:3 inner", 2)]


def test_within_the_budget_is_silent() -> None:
    assert list(over_budget("function", lengths(*[10] * 95, *[70] * 4), LIMITS)) == []
    assert list(over_budget("function", [], LIMITS)) == []


def test_each_too_long_function_is_named() -> None:
    assert list(over_budget("function", lengths(*[1] * 99, 71), LIMITS)) == [
        "file.py:99 f: 71 lines; split it, no function has more than 70"
    ]


def test_the_median_and_the_percentile_have_limits() -> None:
    (percentile,) = over_budget("function", lengths(*[1] * 90, *[60] * 10), LIMITS)
    assert percentile.startswith("95th percentile of functions is 60 lines, over 50; the longest: file.py:90 f,")
    assert list(over_budget("function", lengths(*[11] * 10), LIMITS)) == ["median function has 11 lines, over 10"]


@pytest.mark.parametrize("test", ["gateway/metadata/tests/test_image.py", "gateway/tests/test_metadata_image.py"])
def test_tests_lie_beside_a_module_or_in_the_package_above(test: str) -> None:
    assert list(untested(["gateway/metadata/image.py", test])) == []


def test_a_missing_test_file_is_reported_with_the_best_place() -> None:
    assert list(untested(["protocol/wire.py", "protocol/tests/helper.py", "conftest.py", "compat_tests/a.py"])) == [
        "protocol/wire.py: no test file; write protocol/tests/test_wire.py"
    ]


def test_names_of_contracts_and_lint_exceptions_are_found() -> None:
    project = {
        "tool": {
            "importlinter": {
                "contracts": [
                    {"containers": ["headgate.gateway"], "layers": ["(broker)", "(sockets) | streams"]},
                    {
                        "source_modules": ["headgate.storage"],
                        "forbidden_modules": ["trio"],
                        "ignore_imports": ["headgate.gateway.tests.** -> trio"],
                    },
                ]
            },
            "ruff": {"lint": {"per-file-ignores": {"gateway/runtime/clock.py": [], "**/tests/**": [], "tools/**": []}}},
        }
    }
    assert named_modules(project) == {
        "gateway.broker",
        "gateway.sockets",
        "gateway.streams",
        "gateway.tests",
        "gateway.runtime.clock",
        "storage",
        "tools",
    }


def test_a_name_that_protects_nothing_is_reported() -> None:
    (finding,) = misnamed({"gateway.clok", "gateway.runtime.clock"}, {"gateway/runtime/clock.py"})
    assert finding.startswith("pyproject.toml names gateway.clok, which does not exist")


def test_a_planned_name_that_exists_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    name, path = "gateway.planned", "gateway/planned.py"
    monkeypatch.setattr(tidy, "PLANNED", frozenset({name}))
    assert list(misnamed({name}, set())) == []
    assert list(misnamed({name}, {path})) == [f"{name} exists by now: take it out of PLANNED in tidy.py"]


def test_a_package_exists_by_its_files() -> None:
    assert exists("gateway.metadata", {"gateway/metadata/image.py"})
    assert not exists("gateway.meta", {"gateway/metadata/image.py"})


def test_an_import_by_the_name_of_a_folder_is_reported() -> None:
    source = (
        "import headgate.gateway\nfrom storage.log import Log\nimport tools, spark.session\nfrom pyspark import sql\n"
    )
    assert list(old_imports("a.py", source)) == [
        "a.py:2: imports storage.log; say headgate.storage.log",
        "a.py:3: imports tools; say headgate.tools",
        "a.py:3: imports spark.session; say headgate.spark.session",
    ]


def test_what_a_run_by_hand_left_in_the_top_folder_is_named() -> None:
    assert list(strays(["kp", "out/a.txt", "out/b.txt", "pyproject.toml", "docs/kp", ".ci/build.yml"])) == [
        "kp is not known in the top folder; remove it, or add it to TOP in tidy.py",
        "out is not known in the top folder; remove it, or add it to TOP in tidy.py",
    ]


def test_files_with_hardly_a_byte_are_named() -> None:
    assert list(scraps([("docs/pid", 6), ("gateway/tests/__init__.py", 0), ("LICENSE", 16)])) == [
        "docs/pid has 6 bytes: remove it; so small a file was left by accident"
    ]


def test_prose_has_short_lines_and_tables_need_not() -> None:
    long = "word " * 25
    page = f"{long}\n- {long}\n| {long} |\n```\n{long}\n```\n    {long}\n"
    assert [finding.split()[0] for finding in wide_lines("a.md", page)] == ["a.md:1:", "a.md:2:"]


def test_lock_files_name_no_place() -> None:
    assert list(places("r.txt", "trio==1 \\\n    --hash=sha256:ab\n    # via headgate (pyproject.toml)\n")) == []
    assert len(list(places("r.txt", "--index-url https://x\n-e /home/me/headgate\nx @ file:///x.whl\n"))) == 3


@pytest.mark.parametrize(
    "line",
    ["log.end_offset = 1", "self._log.a += 1", "a, partition.log.b = 1, 2", "log.paths[0] = 1", "log.epochs.c = 1"],
)
def test_only_a_log_changes_itself(line: str) -> None:
    (found,) = changed_logs("a.py", f"{line}\n")
    assert found.startswith("a.py:1: changes ")


def test_whoever_asks_a_log_does_not_change_it() -> None:
    source = "log = self.log = partition.log\nself.end = log.end_offset\nlog.refuse(error)\nlogs[log.key] = log\n"
    assert list(changed_logs("a.py", source)) == []


def test_a_seam_is_not_silenced_in_place() -> None:
    assert len(list(silenced_seams("a.py", "import os  # no{}: PTH, TID251\nimport sys\n".format("qa")))) == 1
