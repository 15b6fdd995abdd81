"""Values decode in one real Spark session. Minutes on a busy machine, so only `make soak` runs this."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.records.varint import encode_varint
from headgate.spark.load.formats.decoding import Decoding
from headgate.spark.load.loading import LoadRequest, load
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.planning import TaskFailed
from headgate.spark.load.runners import SparkRunner
from headgate.spark.load.tests.model_log import NOW_MS, TOPIC, ModelLog, ModelPartition
from headgate.spark.load.tests.test_loading import Listener
from headgate.spark.load.verification import verify

pytestmark = [pytest.mark.soak, pytest.mark.sockets, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def avro_long(number: int) -> bytes:
    return bytes(encode_varint(number))


def avro_text(text: str) -> bytes:
    return avro_long(len(text)) + text.encode()


def confluent(number: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">i", number) + payload


OLD = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
    }
)
NEW = json.dumps(
    {**json.loads(OLD), "fields": [*json.loads(OLD)["fields"], {"name": "c", "type": "int", "default": 7}]}
)
NULLS = json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "long"]}]})


pytest.importorskip("google.protobuf", reason="the packages of Spark are not installed")


def descriptors() -> tuple[str, Any]:
    """A descriptor set in base64, and the class of its message p.M."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="M")
    message.field.add(name="a", number=1, type=3, label=1)
    message.field.add(name="b", number=2, type=9, label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    data = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return base64.b64encode(data).decode(), message_factory.GetMessageClass(pool.FindMessageTypeByName("p.M"))


DESCRIPTORS, M = descriptors()
JSON_CASE: dict[bytes | None, Any] = {
    b'{"a":1,"b":"x"}': {"a": 1, "b": "x"},
    b'{"a":4,"more":[1]}': {"a": 4, "b": None},
    b'{"a":"x"}': "no JSON object",
    b"nope": "no JSON object",
    b"": "no JSON object",
    b'[{"a":5}]': "no JSON object",
    b"\xff\xfe": "no UTF-8",
}
CASES: dict[str, tuple[Decoding, dict[bytes | None, Any]]] = {
    "json": (Decoding("json", "a BIGINT, b STRING"), {None: None, **JSON_CASE}),
    "confluent json": (
        Decoding("json", "a BIGINT, b STRING", True),
        {None: None, b"{}": "five bytes", **{confluent(9, text or b""): one for text, one in JSON_CASE.items()}},
    ),
    "avro": (
        Decoding("avro", OLD),
        {
            avro_long(5) + b"\2" + avro_text("hi"): {"a": 5, "b": "hi"},
            avro_long(-9) + b"\0": {"a": -9, "b": None},
            None: None,
            b"\xff": "no Avro record",
            b"": "no Avro record",
            avro_long(3) + b"\2\4": "no Avro record",
        },
    ),
    "avro of nulls": (
        Decoding("avro", NULLS),
        {b"\2" + avro_long(6): {"a": 6}, b"\0": {"a": None}, b"\7": "no Avro record", b"\2": "no Avro record"},
    ),
    "confluent avro": (
        Decoding("avro", NEW, True, {1: OLD, 2: NEW}),
        {
            confluent(1, avro_long(5) + b"\2" + avro_text("hi")): {"a": 5, "b": "hi", "c": 7},
            confluent(2, avro_long(6) + b"\0" + avro_long(70)): {"a": 6, "b": None, "c": 70},
            confluent(3, avro_long(6) + b"\0"): "no schema with id 3",
            b"\1abcdef": "five bytes",
            b"\0": "five bytes",
            None: None,
            confluent(2, b"\xff"): "no Avro record",
        },
    ),
    "protobuf": (
        Decoding("protobuf", DESCRIPTORS, message="p.M"),
        {
            M(a=4, b=["x"]).SerializeToString(): {"a": 4, "b": ["x"]},
            b"": {"a": 0, "b": []},
            None: None,
            b"\xff": "no p.M",
        },
    ),
}


def log_of(values: list[bytes | None]) -> ModelLog:
    partition = ModelPartition()
    data = batch.build([Record(-1, NOW_MS, b"key", value) for value in values])
    partition.add(0, len(values) - 1, bytes(data))
    return ModelLog([partition])


def rows_of(path: Path, *names: str) -> list[dict[str, Any]]:
    found = [row for file in path.glob("*.parquet") for row in pq.ParquetFile(file).read(list(names)).to_pylist()]
    return sorted(found, key=lambda row: row["offset"])


@pytest.mark.parametrize("name", list(CASES))
def test_values_decode_or_are_rejected(runner: SparkRunner, tmp_path: Path, name: str) -> None:
    decoding, case = CASES[name]
    values = list(case)
    output = OutputFolder(tmp_path / "out")
    request = LoadRequest((TOPIC,), decoding=decoding._replace(reject_limit=99))
    load(request, log_of(values), output, runner, Listener())
    found = {values[row["offset"]]: row["value"] for row in rows_of(output.path, "offset", "value")}
    assert found == {value: wanted for value, wanted in case.items() if not isinstance(wanted, str)}
    rejected = rows_of(tmp_path / "out_rejected", "offset", "value", "error", "key")
    assert [row["value"] for row in rejected] == [value for value, wanted in case.items() if isinstance(wanted, str)]
    for row in rejected:
        assert case[row["value"]] in row["error"]
        assert row["key"] == b"key"
    rows, findings = verify(output)
    assert findings == []
    assert rows[0]["gaps"] == {"rejected": len(rejected)}


def test_a_reject_limit_stops_a_task(runner: SparkRunner, tmp_path: Path) -> None:
    decoding, case = CASES["json"]
    request = LoadRequest((TOPIC,), decoding=decoding._replace(reject_limit=1))
    with pytest.raises(TaskFailed, match=r"more than 1 values of orders-0 do not decode. At offset 3: the value is no"):
        load(request, log_of(list(case)), OutputFolder(tmp_path), runner, Listener())
    assert list(tmp_path.glob("*.parquet")) == []
