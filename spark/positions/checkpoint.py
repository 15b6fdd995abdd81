"""The folder of a checkpoint: on this machine, or, with a scheme (`s3://`, `hdfs://`), read by pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from headgate.protocol.spark import checkpoint_files
from headgate.protocol.spark.checkpoint import BATCHES_FOR_RATE, Checkpoint, CheckpointFiles, read
from headgate.protocol.spark.checkpoint_files import MalformedCheckpoint
from headgate.tools.output import UsageError

ALL_BATCHES: Final = 1 << 30


class Folder(CheckpointFiles, Protocol):
    """The files of a checkpoint, and of what is noted beside them."""

    def write(self, path: str, data: bytes) -> None:
        """Replace a file as a whole. Raises OSError."""


def open_folder(place: str) -> Folder:
    """The folder at a path or at an address. Raises UsageError."""
    if "://" not in place:
        return LocalFolder(Path(place.removeprefix("file:")))
    if place.startswith("file://"):
        return LocalFolder(Path(place.removeprefix("file://")))
    try:
        from pyarrow import ArrowException, fs
    except ImportError:
        raise UsageError(f"{place} needs pyarrow: pip install 'headgate[spark]', or copy the folder here") from None
    try:
        files, path = fs.FileSystem.from_uri(place)
    except (ArrowException, OSError, ValueError) as error:
        raise UsageError(f"cannot open {place}: {error}") from None
    return ArrowFolder(files, path)


class LocalFolder:
    """A folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self, folder: str) -> list[str]:
        try:
            return [path.name for path in (self._path / folder).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def read(self, path: str) -> bytes | None:
        try:
            with (self._path / path).open("rb") as file:
                return file.read(checkpoint_files.MAX_FILE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, data: bytes) -> None:
        draft = self._path / f"{path}.new"
        draft.write_bytes(data)
        draft.replace(self._path / path)


class ArrowFolder:
    """A folder of a `pyarrow.fs.FileSystem`."""

    def __init__(self, files: Any, path: str) -> None:
        self._files, self._path = files, path.rstrip("/")

    def names(self, folder: str) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._path}/{folder}", allow_not_found=True)
        return [info.base_name for info in self._files.get_file_info(selector)]

    def read(self, path: str) -> bytes | None:
        try:
            with self._files.open_input_stream(f"{self._path}/{path}") as file:
                content: bytes = file.read(checkpoint_files.MAX_FILE_BYTES + 1)
                return content
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        draft = f"{self._path}/{path}.new"
        with self._files.open_output_stream(draft) as file:
            file.write(data)
        self._files.move(draft, f"{self._path}/{path}")


def read_checkpoint(place: str, count: int = BATCHES_FOR_RATE, folder: Folder | None = None) -> Checkpoint:
    """The checkpoint in a folder, with its last `count` batches. Raises UsageError."""
    files = folder or open_folder(place)
    try:
        return read(place, files, count)
    except MalformedCheckpoint as error:
        raise UsageError(f"{place}: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot read {place}: {error.strerror or error}") from None
