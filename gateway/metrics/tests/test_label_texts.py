"""The labels of a row as text."""

from prometheus_client.parser import text_string_to_metric_families

from headgate.gateway.metrics.label_texts import label_text


def test_a_text_follows_the_name_of_the_first_label() -> None:
    assert label_text(("topic",), ("t",)) == '="t"} '
    assert label_text(("group", "topic", "partition"), ("g", "t", "0")) == '="g",topic="t",partition="0"} '


def test_a_parser_reads_any_value() -> None:
    value = 'a"b\\c\nd{}=,'
    text = f"m{{a{label_text(('a', 'b'), (value, 'x'))}1\n"
    ((sample,),) = [family.samples for family in text_string_to_metric_families(text)]
    assert sample.labels == {"a": value, "b": "x"}
