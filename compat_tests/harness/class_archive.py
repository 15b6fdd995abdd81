"""Archives of the classes that a JVM loads (JEP 350): with one, a JVM starts with half the CPU time.

The first JVM of a checkout has its archive made, by a JVM that does the same work and ends in order. A JVM ignores an
archive of other jars or of another JVM. The class path has jars alone, as a JVM archives no class of a directory.
"""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from compat_tests.harness.apache_kafka import ROOT

ARCHIVES: Final = ROOT / "build" / "jvm"


def options(name: str, work: Callable[[str, Path], None], *jars: Path) -> tuple[str, ...]:
    """The options of a JVM that uses an archive, none while another process makes it.

    `work(option, scratch)` runs a JVM with that option to its end; `scratch` is a directory for its time. An archive
    is made again when one of the jars, or the directory of some, is newer.
    """
    archive = ARCHIVES / f"{name}.jsa"
    if not archive.exists() or any(path.stat().st_mtime > archive.stat().st_mtime for path in jars):
        make(archive, work)
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable") if archive.exists() else ()


def make(archive: Path, work: Callable[[str, Path], None]) -> None:
    """Make the archive, unless another process does: that one's is for later JVMs."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock, contextlib.suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
            made = Path(scratch) / archive.name
            work(f"-XX:ArchiveClassesAtExit={made}", Path(scratch))
            made.replace(archive)
