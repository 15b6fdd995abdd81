"""The package check: the tree and the source archive install the same files. A part of `make check`.

In the tree `src/headgate` has links to the folders at the top. A source archive has no links, so the wheel is made of
the real folders. This check builds both wheels and compares them: no other top-level name than `headgate` and Spark's
`pyspark_headgate`, and no file of the tests.
Prints every finding; exit status 1 if there was a finding.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
NAME: Final = "headgate"
# Spark looks for data sources in modules of this name (pyspark_*) alone
NAMES: Final = (NAME, "pyspark_headgate")
FOLDERS: Final = ("gateway", "protocol", "storage", "tools", "spark")
PAGE: Final = "tools/console/page"
# Parts of a path that are of use in the repository alone
NOT_INSTALLED: Final = ("/tests/", "/conftest.py", "/bench/", "/development/")


def build(source: Path, kind: str, target: Path) -> Path:
    """Build a `wheel` or an `sdist` of the tree at `source`; the path of the archive. Raises RuntimeError."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(target)]
    built = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True)
    if built.returncode != 0:
        raise RuntimeError(f"the {kind} of {source} cannot be built:\n{built.stderr}")
    (archive,) = target.iterdir()
    return archive


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def of_both(root: Path) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of the wheel from a tree, and of that from the tree's source archive."""
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        direct = contents(build(root, "wheel", place / "direct"))
        with tarfile.open(build(root, "sdist", place / "sdist")) as archive:
            archive.extractall(place / "unpacked", filter="data")
        (unpacked,) = (place / "unpacked").iterdir()
        return direct, contents(build(unpacked, "wheel", place / "indirect"))


def differences(direct: Mapping[str, bytes], indirect: Mapping[str, bytes]) -> Iterator[str]:
    """Findings where the two wheels differ, but for the list of files with their digests."""
    for name in sorted(direct.keys() ^ indirect.keys()):
        there = "tree" if name in direct else "source archive"
        yield f"{name}: only the wheel from the {there} has it; see [tool.hatch.build] in pyproject.toml"
    for name in sorted(direct.keys() & indirect.keys()):
        if direct[name] != indirect[name] and not name.endswith(".dist-info/RECORD"):
            yield f"{name}: the wheels from the tree and from the source archive have different contents"


def wrong_files(names: Collection[str], modules: Iterable[str]) -> Iterator[str]:
    """Findings for the names in a wheel: another top-level name, a file of the tests, a module that is missing."""
    for name in names:
        top = name.split("/")[0]
        if top not in NAMES and not top.endswith(".dist-info"):
            yield f"{name}: installed, Headgate takes the names {' and '.join(NAMES)} alone"
        if any(part in name for part in NOT_INSTALLED):
            yield f"{name}: of use in the repository alone; exclude it in [tool.hatch.build]"
    for module in modules:
        if module not in names:
            yield f"{module}: the wheel lacks it"


def installed_modules(root: Path) -> list[str]:
    """The names in a wheel of all modules that a tree installs, and of the files of the console's page."""
    found = [f"{NAME}/{path.name}" for path in (root / "src" / NAME).glob("*.py")]
    for folder in FOLDERS:
        found += [f"{NAME}/{path.relative_to(root).as_posix()}" for path in (root / folder).rglob("*.py")]
    pages = (path for path in (root / PAGE).rglob("*") if path.is_file())
    found += [f"{NAME}/{path.relative_to(root).as_posix()}" for path in pages]
    return sorted(name for name in found if not any(part in name for part in NOT_INSTALLED))


def main() -> int:
    """Check the tree that this file is in."""
    direct, indirect = of_both(ROOT)
    found = [*differences(direct, indirect), *wrong_files(direct.keys(), installed_modules(ROOT))]
    for finding in found:
        print(finding)
    print(f"{len(direct)} files in the wheel, {sum(map(len, direct.values())) >> 10} KiB")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
