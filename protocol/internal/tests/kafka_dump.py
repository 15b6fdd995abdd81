"""Records of internal topics as Apache Kafka's own tool, `kafka-dump-log`, reads them from a log."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headgate.protocol.records import batch
from headgate.protocol.records.batch import Record
from headgate.protocol.tests.definitions import JARS, missing

BROKER_JARS = JARS / "broker"


def dumped(directory: Path, decoder: str, records: Iterable[tuple[bytes, bytes | None]], time_ms: int) -> list[Any]:
    """Write the keys and values to a log in `directory`; return the pairs that Kafka's tool reads.

    `decoder`: the tool's option, such as "--offsets-decoder". A null value stays None.
    """
    if shutil.which("java") is None or not any(BROKER_JARS.glob("*.jar")):
        missing(f"Java, or the jars in {BROKER_JARS}, are not here: install a JDK and run `make jars`")
    log = directory / f"{0:020}.log"
    log.write_bytes(batch.build([Record(timestamp=time_ms, key=key, value=value) for key, value in records]))
    options = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{BROKER_JARS}/*")
    command = ["java", *options, "kafka.tools.DumpLogSegments", decoder, "--files", str(log)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    lines = [line.partition(" key: ")[2].split(" payload: ") for line in output.splitlines() if line.startswith("|")]
    return [(json.loads(key), None if value == "<DELETE>" else json.loads(value)) for key, value in lines]
