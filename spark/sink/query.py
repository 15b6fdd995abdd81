"""The query that a batch belongs to: its id and its offsets, from the checkpoint.

Spark writes `metadata` at the first start and `offsets/<batch>` before a batch runs, so both are there when
`foreachBatch` is called, in every deployment.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headgate.protocol.spark import checkpoint_files
from headgate.spark.positions.checkpoint import open_folder
from headgate.spark.sink.marker import QueryBatch, SinkRefused, SourceOffsets
from headgate.tools.output import UsageError

_QUERY_ID = "sql.streaming.queryId"
_MAX_FILE_BYTES = 64 * 1024 * 1024
_FILE_LOG_OFFSET = re.compile(r'\{"logOffset":(\d{1,18})\}')


def find_checkpoint(frame: Any) -> str:
    """The checkpoint's folder of the query that calls `foreachBatch`. Raises SinkRefused if Spark names none."""
    try:
        session = frame.sparkSession
        context = session.sparkContext
        query_id = context.getLocalProperty(_QUERY_ID)
        if query_id is not None:
            uuid = context._jvm.java.util.UUID.fromString(query_id)  # noqa: SLF001
            query = session._jsparkSession.sharedState().activeStreamingQueries().get(uuid)  # noqa: SLF001
            return str(query.resolvedCheckpointRoot())
    except Exception as error:
        raise SinkRefused(
            "the checkpoint of the query is not known here (Spark Connect does not tell): pass checkpoint=, the same "
            "folder as the option checkpointLocation"
        ) from error
    raise SinkRefused("the sink was called outside of foreachBatch: use `write` for a frame that is no batch")


def read_query(checkpoint: str, batch_id: int, session: Any) -> QueryBatch:
    """The id and the offsets of a batch. Raises SinkRefused for another folder, or a damaged one."""
    try:
        query_id = checkpoint_files.parse_query_id(_read(f"{checkpoint}/metadata", session))
    except (OSError, ValueError) as error:
        raise SinkRefused(f"{checkpoint} is not the checkpoint of this query: {checkpoint}/metadata: {error}") from None
    after, before = (_read_offsets(checkpoint, number, session) for number in (batch_id, batch_id - 1))
    if after is None:
        raise SinkRefused(f"there is no {checkpoint}/offsets/{batch_id}; is {checkpoint} the checkpoint of this query?")
    return QueryBatch(query_id, batch_id, *after, before)


def _read_offsets(checkpoint: str, batch_id: int, session: Any) -> SourceOffsets | None:
    """The offsets after a batch; None if there is no such batch."""
    if batch_id < 0:
        return None
    path = f"{checkpoint}/offsets/{batch_id}"
    try:
        return parse_offsets(_read(path, session), lambda name: _read(f"{checkpoint}/sources/{name}", session))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SinkRefused(f"{path} cannot be read: {error}; is {checkpoint} the checkpoint of this query?") from None


def parse_offsets(text: str, read: Callable[[str], str]) -> SourceOffsets:
    """The offsets of all sources, from the text of `offsets/<batch>`. `read`: a file below `sources`.

    Raises MalformedCheckpoint, and what `read` raises.
    """
    offsets = checkpoint_files.parse_offsets(text)
    found: dict[str, dict[int, int]] = {}
    for (topic, number), offset in offsets.positions().items():
        found.setdefault(topic, {})[number] = offset
    others = offsets.others()
    if not others:
        return SourceOffsets(found)
    try:
        contents = {name: [option, _read_file_log(name, option, read)] for name, option in others.items()}
    except FileNotFoundError:
        return SourceOffsets(found, None)
    return SourceOffsets(found, hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest())


def _read_file_log(name: str, offset: str, read: Callable[[str], str]) -> str:
    """The files of a batch of Spark's source of files, whose offset is the number of a list of files; else nothing.

    An older checkpoint gives the same number to other files. Each tenth list or so has all files, under a longer name.
    """
    number = _FILE_LOG_OFFSET.fullmatch(offset)
    if number is None:
        return ""
    try:
        return read(f"{name}/{number[1]}")
    except FileNotFoundError:
        return read(f"{name}/{number[1]}.compact")


def _read(path: str, session: Any) -> str:
    """The text of a file on any file system that Spark reads; without a session, that pyarrow reads.

    Raises OSError, ValueError.
    """
    parts = urlsplit(path)
    if parts.scheme in {"", "file"}:
        local = Path(unquote(parts.path) if parts.scheme else path)
        if local.stat().st_size > _MAX_FILE_BYTES:
            raise ValueError(f"it has {local.stat().st_size} bytes")
        return local.read_text()
    if session is None:
        return _read_here(path)
    from pyspark.errors import AnalysisException

    try:
        rows = session.read.text(path, wholetext=True).collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            raise FileNotFoundError(path) from None
        raise
    if len(rows) != 1:
        raise ValueError(f"it has {len(rows)} parts")
    return str(rows[0][0])


def _read_here(path: str) -> str:
    folder, _, name = path.rpartition("/")
    try:
        data = open_folder(folder).read(name)
    except UsageError as error:
        raise ValueError(str(error)) from None
    if data is None:
        raise FileNotFoundError("there is no such file")
    return checkpoint_files.decode(data)
