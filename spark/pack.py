"""`headgate spark pack`: an archive of what executors need, for `spark.archives`, made with venv-pack.

It holds Headgate, what its tasks import, and the packages of `--add`; not PySpark, which comes with each executor's
Spark. The archive refers to the interpreter that this environment was made of: executors need it at the same path.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
import venv
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from headgate.tools.output import CommandResult, format_table, print_result

FOLDER: Final = "environment"
"""The name that executors unpack the archive under."""
_OURS: Final = ("headgate", "pyspark_headgate")
# Each executor's Spark has its own; the driver alone packs
_LEFT_OUT: Final = frozenset({"py4j", "pyspark", "pyspark-client", "pyspark-connect", "venv-pack"})
_EXTRA: Final = "spark"
# Of use in the repository alone, or to compile against
_UNUSED: Final = (
    "__pycache__",
    "headgate/spark/bench",
    "headgate/tools/bench",
    "headgate/tools/development",
    "pyarrow/include",
    "pyarrow/tests",
)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class PackFailed(Exception):
    """The archive cannot be made; the text says why."""


def closure(names: Iterable[str], extra: str = "") -> dict[str, metadata.Distribution]:
    """The distributions of these names and of all that these require and have installed. Raises PackFailed."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(name, True) for name in names]
    while waiting:
        name, is_named = waiting.pop()
        key = normalized(name)
        if key in found or key in _LEFT_OUT:
            continue
        try:
            found[key] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            if is_named:  # a requirement that is not installed has a marker for another platform
                raise PackFailed(f"{name} is not installed here: pip install {name}") from None
            continue
        wanted = extra if key == _OURS[0] else ""
        waiting += [(requirement, False) for requirement in requirements(found[key].requires or (), wanted)]
    return found


def requirements(lines: Iterable[str], extra: str = "") -> Iterator[str]:
    """The names in lines of `Requires-Dist`, without the requirements of other extras."""
    for line in lines:
        name, marker = _NAME.match(line), line.partition(";")[2]
        of = re.search(r"extra\s*==\s*[\"']([^\"']+)", marker)
        if name and (of is None or of[1] == extra):
            yield name[0]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def files_of(distribution: metadata.Distribution) -> Iterator[tuple[Path, str]]:
    """Each file of a distribution: its path, and its name below site-packages. Scripts beside it are left out."""
    for file in distribution.files or ():
        name = file.as_posix()
        if not name.startswith("..") and not is_unused(name):
            yield Path(str(distribution.locate_file(file))), name


def files_of_package(name: str) -> Iterator[tuple[Path, str]]:
    """Each file of an importable package; the folders of an editable one are links."""
    package = find_spec(name)
    for place in (package.submodule_search_locations or ()) if package else ():
        for folder, _, files in os.walk(place, followlinks=True):
            for file in files:
                below = f"{name}/{(Path(folder) / file).relative_to(place).as_posix()}"
                if not is_unused(below) and "/tests/" not in below:
                    yield Path(folder) / file, below


def is_unused(name: str) -> bool:
    return name.endswith((".pyc", ".pth")) or any(f"{part}/" in f"{name}/" for part in _UNUSED)


def pack(output: Path, add: Iterable[str] = (), python_prefix: str | None = None) -> tuple[int, int]:
    """Write the archive, whole or not at all. Returns the numbers of distributions and bytes. Raises PackFailed."""
    try:
        import venv_pack
    except ImportError:
        raise PackFailed("venv-pack is not installed: pip install 'headgate[spark]'") from None
    distributions = closure([_OURS[0], *add], _EXTRA)
    with tempfile.TemporaryDirectory(prefix="headgate-pack-", dir=output.absolute().parent) as temporary:
        place = Path(temporary) / FOLDER
        venv.EnvBuilder(symlinks=True, with_pip=False).create(place)
        (packages,) = place.glob("lib/python*/site-packages")
        for distribution in distributions.values():
            copy(files_of(distribution), packages)
        for name in _OURS:
            copy(files_of_package(name), packages)
        partial = Path(temporary) / output.name
        try:
            venv_pack.pack(prefix=str(place), output=str(partial), python_prefix=python_prefix, compress_level=1)
        except venv_pack.VenvPackException as error:
            raise PackFailed(str(error)) from None
        size = partial.stat().st_size
        partial.chmod(0o644)  # executors may run as another user
        partial.replace(output)
    return len(distributions), size


def copy(files: Iterable[tuple[Path, str]], target: Path) -> None:
    for path, name in files:
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


# ------------------------------------------------------------------------------------------------------------- command


def main(arguments: Sequence[str]) -> int:
    """Run `headgate spark pack <arguments>`; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="headgate spark pack", description="Make an archive of what executors need, for spark.archives."
    )
    parser.add_argument("output", nargs="?", type=Path, default=Path("headgate-spark.tar.gz"), metavar="FILE.tar.gz")
    parser.add_argument(
        "--add", action="append", default=[], metavar="package", help="with all it requires; repeatable"
    )
    parser.add_argument(
        "--python-prefix", metavar="folder", help="of the executors' Python; default: the prefix of this one"
    )
    parser.add_argument("--force", action="store_true", help="replace the file")
    options = parser.parse_args(arguments)
    if not options.output.name.endswith((".tar.gz", ".tgz", ".zip")):
        parser.error(f"{options.output.name!r}: write a name with .tar.gz, .tgz or .zip, which executors unpack")
    result = run(options)
    return print_result("spark pack", result, options, format_table)


def run(options: argparse.Namespace) -> CommandResult:
    if options.output.exists() and not options.force:
        return CommandResult(failures=[f"{options.output} exists: name another, or replace it with --force"])
    try:
        count, size = pack(options.output, options.add, options.python_prefix)
    except (PackFailed, OSError) as error:
        return CommandResult(failures=[str(error)])
    python = f"{options.python_prefix or sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    lines = [
        f"spark.archives        {options.output.absolute()}#{FOLDER}",
        f"spark.pyspark.python  ./{FOLDER}/bin/python",
    ]
    notes = [
        f"{count} packages, {size >> 20} MB; each executor needs {python}",
        (
            f"the format headgate in client mode, and a server of Spark Connect: unpack the archive in ./{FOLDER} of "
            f"the driver too, and set PYSPARK_PYTHON=./{FOLDER}/bin/python"
        ),
    ]
    return CommandResult(document="\n".join(lines), notes=notes)
