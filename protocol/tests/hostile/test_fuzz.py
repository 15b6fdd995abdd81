"""A bounded run of the fuzzer, and that it would find something; see `fuzz.py`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.protocol.tests.definitions import missing
from headgate.protocol.tests.hostile import fuzz
from headgate.protocol.tests.hostile.fuzzing import FOUND
from headgate.protocol.tests.hostile.subjects import SUBJECTS

# In a short run the seed is always the same, so that red means a change
BOUNDS = ["-seed=1", "-max_total_time=3"]
SOAK = os.environ.get("HEADGATE_SOAK", "") not in {"", "0"}
if SOAK:
    BOUNDS = ["-max_total_time=900"]

PLANTED = """
import sys
from pathlib import Path
from headgate.protocol import compiler
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.tests.hostile import fuzz, subjects

def check(data, value):
    request, _ = value
    assert not (request.forgotten_topics_data and request.topics and request.topics[0].partitions)

name = "FetchRequest-v12"
planted = subjects.SUBJECTS[name]._replace(good=lambda: [subjects.written(FetchRequest(), 12)], check=check)
fuzz.SUBJECTS.clear()
fuzz.SUBJECTS[name] = planted
fuzz.main(sys.argv[1:])
"""


def python(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=2_000, check=False)


@pytest.fixture(scope="module")
def needs_atheris() -> None:
    if importlib.util.find_spec("atheris") is None:
        missing("atheris is not here: it has wheels for Linux on x86-64 and Python 3.11 to 3.13 only")


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.usefixtures("needs_atheris")
def test_a_short_run_finds_no_fault(tmp_path: Path) -> None:
    directories = ("--inputs", tmp_path / "inputs", "--found", FOUND)
    ended = python("-m", "headgate.protocol.tests.hostile.fuzz", "run", *directories, *BOUNDS)
    lines = ended.stderr.splitlines()
    assert ended.returncode == 0, "\n".join(line for line in lines if "\tNEW " not in line and "\tREDUCE " not in line)
    (initial,) = (line for line in lines if "INITED" in line)
    (final,) = (line for line in lines if "DONE" in line)
    assert 5 * len(SUBJECTS) < covered(initial) <= covered(final)


def covered(line: str) -> int:
    """The blocks that were entered, of a line of libFuzzer."""
    words = line.split()
    return int(words[words.index("cov:") + 1])


@pytest.mark.slow
@pytest.mark.sockets
@pytest.mark.usefixtures("needs_atheris")
def test_a_fault_is_found_and_can_be_replayed(tmp_path: Path) -> None:
    """From an empty request: what fails needs three arrays with something in them, two of them inside each other."""
    program = tmp_path / "planted.py"
    program.write_text(PLANTED)
    directories = ("--inputs", tmp_path / "inputs", "--found", tmp_path)
    ended = python(program, "run", *directories, "-seed=1", "-max_total_time=60", "-timeout=60")
    assert ended.returncode != 0
    assert "found: FetchRequest-v12 " in ended.stderr
    crashes = list(tmp_path.glob("crash-*"))
    assert len(crashes) == 1, f"{[path.name for path in tmp_path.iterdir()]}\n{ended.stderr[-2000:]}"
    (crash,) = crashes
    replayed = python(program, "replay", crash)
    assert replayed.returncode == 1
    assert "AssertionError" in replayed.stderr


def test_an_input_without_a_fault_can_be_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "input"
    path.write_bytes(fuzz.input_of("MetadataRequest-v1", b"\xff\xff\xff\xff"))
    fuzz.main(["replay", str(path)])
    assert capsys.readouterr().out == f"{path} is as it should be: MetadataRequest-v1 ffffffff\n"


def test_a_directory_becomes_lines_of_the_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one").write_bytes(fuzz.input_of("frames", b"\x01\x02"))
    (tmp_path / "two").write_bytes(fuzz.input_of("batches", b""))
    (tmp_path / "three").write_bytes(fuzz.input_of("batches", b""))
    fuzz.main(["distill", str(tmp_path)])
    assert capsys.readouterr().out == "batches \nframes 0102\n"


def test_the_corpus_is_small_and_sorted() -> None:
    lines = fuzz.CORPUS.read_text().splitlines()
    assert lines == sorted(set(lines))
    assert fuzz.CORPUS.stat().st_size < 100_000


@pytest.mark.slow
def test_no_line_of_the_corpus_is_a_fault() -> None:
    for name, data in fuzz.corpus():
        fuzz.try_input(fuzz.input_of(name, data))


def test_construct_and_the_reader_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = SUBJECTS["MetadataRequest-v1"]
    other = subject._replace(read=SUBJECTS["MetadataRequest-v0"].read)
    fuzz.agree(subject, b"\xff\xff\xff\xff")
    with pytest.raises(AssertionError):
        fuzz.agree(other, b"\xff\xff\xff\xff")
