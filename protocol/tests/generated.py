"""Kafka's generated classes as an oracle: a process of Java over the classes of one jar (compat_tests/java/schemas).

They are given values as JSON and bytes, and give back both; the program says how. What JSON looks like to them follows
from Kafka's definitions: `in_json` walks one of those beside a value of ours.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from compat_tests.harness import toolchain
from headgate.protocol.schema import Struct, Versions, fields_in
from headgate.protocol.tests.definitions import JARS, missing

# The set of 3.9 also has Jackson, which the newest client does not bring
CLIENT: Final = {
    4: ("clients/*.jar", "schemas/jackson-*.jar"),
    3: ("schemas/*.jar",),
}
BROKER: Final = ("broker/*.jar",)
WAIT_S: Final = 20


class GeneratedClasses:
    """The classes in some jars, by their places below build/jars; a context manager, which ends the process."""

    def __init__(self, *patterns: str) -> None:
        programs = toolchain.compiled("schemas", toolchain.jars("schemas"))
        jars = [str(jar) for pattern in patterns for jar in found(pattern)]
        options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        self._process = subprocess.Popen(
            ["java", *options, "-cp", os.pathsep.join((programs, *jars)), "GeneratedClasses"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=WAIT_S)

    def ask(self, message: str, version: int, cases: list[dict[str, Any]]) -> tuple[list[int], list[dict[str, Any]]]:
        """The versions of the headers, and what the class makes of each case.

        The process reads a whole line before it answers: no two wait for each other.
        """
        line = json.dumps({"message": message, "version": version, "cases": cases})
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(line.encode() + b"\n")
        stdin.flush()
        answered = stdout.readline()
        assert answered, "Java has ended: see its lines on stderr"
        answer = json.loads(answered)
        return answer["headers"], answer["answers"]


def found(pattern: str) -> list[Path]:
    return list(JARS.glob(pattern)) or missing(f"{JARS / pattern} is not here: run `make jars`")


def in_base64(data: Any) -> str:
    return base64.b64encode(data).decode()


def in_json(value: Struct, fields: list[dict[str, Any]], version: int, *, is_answer: bool) -> dict[str, Any]:
    """A struct as Kafka's converters write it. In their answers stands the size of records instead of the bytes."""
    result: dict[str, Any] = {}
    defined = [field for field in fields if version in Versions.parse(field["versions"])]
    # By their order: Kafka has given a few of them new names
    for our, field in zip(fields_in(type(value), version), defined, strict=True):
        part = getattr(value, our.name)
        if our.tag is not None and part == our.default():
            continue
        key = field["name"][0].lower() + field["name"][1:]
        if field["type"] == "records" and is_answer and part is not None:
            result[key + "SizeInBytes"] = len(part)
        else:
            result[key] = _part(part, field, version, is_answer)
    return result


def _part(part: Any, field: dict[str, Any], version: int, is_answer: bool) -> Any:
    kind = field["type"]
    if part is None:
        return None
    if isinstance(part, list):
        one = {**field, "type": kind.removeprefix("[]")}
        return [_part(element, one, version, is_answer) for element in part]
    if "fields" in field:
        return in_json(part, field["fields"], version, is_answer=is_answer)
    if kind == "uuid":
        return base64.urlsafe_b64encode(part).decode().rstrip("=")
    return in_base64(part) if kind in {"bytes", "records"} else part


def without_unknown_tags(value: Any) -> Any:
    """A copy as it can be told in JSON."""
    if isinstance(value, list):
        return [without_unknown_tags(element) for element in value]
    if isinstance(value, Struct):
        parts = {field.name: without_unknown_tags(getattr(value, field.name)) for field in type(value).fields}
        return type(value)(**parts)
    return value
