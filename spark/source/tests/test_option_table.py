from __future__ import annotations

from headgate.spark.source.option_table import READ_OPTIONS, REFUSED_SETTINGS, WITHOUT_EFFECT


def test_no_setting_is_both_honoured_and_without_effect() -> None:
    honoured = {name.removeprefix("kafka.") for name in READ_OPTIONS if name.startswith("kafka.")}
    assert not honoured & WITHOUT_EFFECT
    assert not REFUSED_SETTINGS.keys() & (WITHOUT_EFFECT | honoured)


def test_each_option_says_what_it_is_for() -> None:
    assert all(option.meaning and option.name.lower() == name for name, option in READ_OPTIONS.items())
