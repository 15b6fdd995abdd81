from __future__ import annotations

from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult, of_sentence, result_of, table_lines
from headgate.tools.output import ALARM, DONE

FINE = CheckResult("name", OK, "it is there")
BAD = CheckResult("tls", WRONG, "it is refused", "trust it")


def test_a_wrong_check_is_an_alarm_and_a_note_is_none() -> None:
    assert result_of([FINE, FINE._replace(state=NOTE, cure="look")]).code == DONE
    assert result_of([FINE, BAD]).code == ALARM
    assert result_of([FINE, BAD], ["not checked: clocks"]).notes == ["1 of 2 checks is wrong", "not checked: clocks"]


def test_rows_have_no_empty_cure() -> None:
    assert result_of([FINE, BAD]).rows == [
        {"check": "name", "state": "ok", "found": "it is there", "cure": None},
        {"check": "tls", "state": "wrong", "found": "it is refused", "cure": "trust it"},
    ]


def test_the_cure_stands_behind_the_first_semicolon() -> None:
    assert of_sentence("tls", WRONG, "it is refused; trust it; or not") == CheckResult(
        "tls", WRONG, "it is refused", "trust it; or not"
    )
    assert of_sentence("tls", WRONG, "it is refused").cure == ""


def test_cures_stand_below_the_table() -> None:
    lines = list(table_lines(result_of([FINE, BAD]).rows))
    assert lines[0].split() == ["CHECK", "STATE", "FOUND"]
    assert lines[-2:] == ["", "tls: trust it"]
    assert len(list(table_lines(result_of([FINE]).rows))) == 2
