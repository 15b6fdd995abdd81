"""Keys and values in Avro have the id of their schema in front, as Confluent's readers expect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.tools.console.changes.producing import avro_content
from headgate.tools.console.changes.producing.avro_content import AvroEncoder
from headgate.tools.console.changes.producing.message_parameters import AvroContent
from headgate.tools.console.messages import schema_options
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.schema_registry import RegisteredSchema


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The schemas of the console's command line."""
    schema_options.use(str(tmp_path), None)
    yield tmp_path
    schema_options.use(None, None)


def test_a_schema_by_its_id(folder: Path) -> None:
    (folder / "258.avsc").write_text('"string"')
    encode = AvroEncoder("orders", Parameters([("value_schema", "258")]))
    assert encode("value", "ab") == AvroContent(b"\x00\x00\x00\x01\x02\x04ab", "258")
    with pytest.raises(BadParameter, match=r"^the value cannot be encoded as Avro: the value is not a text"):
        encode("value", 3)


def test_a_folders_schema_of_the_topic_has_no_id(folder: Path) -> None:
    (folder / "orders-key.avsc").write_text('"long"')
    encode = AvroEncoder("orders", Parameters())
    assert encode("key", 1) == AvroContent(b"\x02", "orders-key, without a prefix")
    with pytest.raises(BadParameter, match=r"there is no file .*orders-value\.avsc"):
        encode("value", 1)


def test_the_newest_schema_of_a_registry_has_an_id(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    class Registry:
        def by_subject(self, subject: str) -> RegisteredSchema:
            assert subject == "orders-value"
            return RegisteredSchema("AVRO", '"long"', (), 7)

        def by_id(self, number: int) -> RegisteredSchema:
            return RegisteredSchema("PROTOBUF", "")

    monkeypatch.setattr(avro_content, "open_source", lambda *_: Registry())
    assert AvroEncoder("orders", Parameters())("value", 1) == AvroContent(b"\x00\x00\x00\x00\x07\x02", "7")
    with pytest.raises(BadParameter, match="its schema is of type PROTOBUF, not AVRO"):
        AvroEncoder("orders", Parameters([("value_schema", "3")]))("value", 1)


def test_a_console_without_schemas_says_so() -> None:
    with pytest.raises(BadParameter, match="the console was started without schemas"):
        AvroEncoder("orders", Parameters())("value", 1)
