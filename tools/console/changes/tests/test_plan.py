"""The digest of a plan: of what changes, not of numbers that move."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headgate.tools.console.changes import plan as plan_module
from headgate.tools.console.changes.plan import (
    ChangeLine,
    ChangePlan,
    ChangeResult,
    confirmation_of,
    counted,
    named_or_counted,
)

PLAN = ChangePlan(
    "Change one config", [ChangeLine("retention.ms", "1", "2", "a note")], lambda _: ChangeResult(["changed"])
)


def digest(plan: ChangePlan) -> object:
    return plan.answer()["digest"]


def test_what_moves_is_no_part_of_the_digest() -> None:
    same = replace(PLAN, summary="Change it", lines=[PLAN.lines[0]._replace(note="another note")])
    assert digest(same) == digest(PLAN)


@pytest.mark.parametrize(
    "changed",
    [
        {"lines": [ChangeLine("retention.ms", "1", "3")]},
        {"lines": [ChangeLine("retention.ms", None, "2")]},
        {"lines": [*PLAN.lines, *PLAN.lines]},
        {"problems": ["no"]},
        {"warnings": ["careful"]},
        {"command": "headgate topics"},
        {"confirmation": "orders"},
    ],
)
def test_everything_else_is(changed: dict[str, object]) -> None:
    assert digest(replace(PLAN, **changed)) != digest(PLAN)  # type: ignore[arg-type]


def test_too_many_lines_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_module, "MOST_LINES", 1)
    answer = replace(PLAN, lines=[*PLAN.lines, *PLAN.lines]).answer()
    assert len(answer["lines"]) == 1
    assert answer["problems"] == ["a change has at most 1 lines, and this one has 2; choose fewer"]


def test_the_result_is_json() -> None:
    result = ChangeResult(["done"], ["a: refused"], {"link": ["/topics"]})
    assert result.answer() == {"done": ["done"], "failures": ["a: refused"], "details": {"link": ["/topics"]}}


@pytest.mark.parametrize("count, text", [(0, "0 records"), (1, "1 record"), (1234, "1,234 records")])
def test_a_count_has_its_noun(count: int, text: str) -> None:
    assert counted(count, "record") == text


def test_one_thing_has_its_name_and_several_their_number() -> None:
    assert (named_or_counted(["orders"], "topic"), confirmation_of(["orders"], "topic")) == (
        "the topic orders",
        "orders",
    )
    assert (named_or_counted(["a", "b"], "group"), confirmation_of(["a", "b"], "group")) == ("2 groups", "2 groups")
