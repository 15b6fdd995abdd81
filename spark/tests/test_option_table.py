from __future__ import annotations

from headgate.spark.option_table import HEADGATE_OPTIONS, KAFKA_OPTIONS, READ_OPTIONS, READ_REFUSED, WITHOUT_EFFECT


def test_no_setting_is_both_honoured_and_without_effect() -> None:
    assert not READ_OPTIONS.keys() & WITHOUT_EFFECT
    assert not READ_REFUSED.keys() & (WITHOUT_EFFECT | READ_OPTIONS.keys())


def test_each_option_says_what_it_is_for() -> None:
    assert all(option.summary and option.uses for option in (*KAFKA_OPTIONS, *HEADGATE_OPTIONS))
    assert all(option.name.lower() == name for name, option in READ_OPTIONS.items())
