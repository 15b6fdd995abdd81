from __future__ import annotations

from pathlib import Path

import pytest

from headgate.spark.load.formats.choosing import choose
from headgate.spark.load.formats.decoding import Decoding
from headgate.spark.load.formats.tests.test_protobuf_values import descriptor_set
from headgate.spark.load.output.planning import LoadRefused
from headgate.tools.output import UsageError

OLD = '{"type":"record","name":"r","fields":[]}'
NEW = '{"type":"record","name":"r","fields":[{"name":"a","type":"int"}]}'


def test_each_format_takes_its_options(tmp_path: Path) -> None:
    for name, content in (("ddl", " a INT\n"), ("3.avsc", OLD), ("12.avsc", NEW), ("notes.txt", "?")):
        (tmp_path / name).write_text(content)
    ddl, old, folder = str(tmp_path / "ddl"), str(tmp_path / "3.avsc"), str(tmp_path)
    assert choose("raw", ["t"]) == Decoding()
    assert choose("json", ["t"], schema=ddl, reject_limit=2) == Decoding("json", "a INT", reject_limit=2)
    assert choose("avro", ["t"], schema=old) == Decoding("avro", OLD, reject_limit=0)
    assert choose("avro", ["t"], schemas=folder) == Decoding("avro", NEW, True, {3: OLD, 12: NEW}, reject_limit=0)
    assert choose("avro", ["t"], schemas=folder, schema=old).schema == OLD
    (tmp_path / "set").write_bytes(descriptor_set())
    found = choose("protobuf", ["t"], schema=str(tmp_path / "set"), message="p.M", is_confluent=True)
    assert (found.format, found.message, found.is_confluent) == ("protobuf", "p.M", True)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("?")
    path = str(tmp_path / "x")
    with pytest.raises(UsageError, match="--format avro needs --schema"):
        choose("avro", ["t"])
    with pytest.raises(UsageError, match="--format protobuf needs --schema"):
        choose("protobuf", ["t"], schema=path)
    with pytest.raises(UsageError, match="takes no --message, --confluent"):
        choose("avro", ["t"], schema=path, message="m", is_confluent=True)
    with pytest.raises(UsageError, match="No such file"):
        choose("json", ["t"], schema=path + "y")
    for name, message in (("avro", "is no Avro schema"), ("protobuf", "this is no descriptor set|has no message")):
        with pytest.raises(LoadRefused, match=message):
            choose(name, ["t"], schema=path, message="m" if name == "protobuf" else None)
    with pytest.raises(LoadRefused, match="has no Avro schema"):
        choose("avro", ["t"], schemas=str(tmp_path))
    with pytest.raises(LoadRefused, match="neither a folder"):
        choose("avro", ["t"], schemas=path)
