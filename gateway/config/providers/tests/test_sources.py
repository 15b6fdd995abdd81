"""Files and the environment as sources of values."""

from pathlib import Path

import pytest

from headgate.gateway.config.providers.sources import MAX_FILE_BYTES, ProcessSources


def test_a_process_reads_files_and_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = ProcessSources()
    file = tmp_path / "secrets"
    file.write_text("päss")
    assert sources.read_text(str(file)) == "päss"
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match=r"^it is not UTF-8$"):
        sources.read_text(str(file))
    file.write_bytes(bytes(MAX_FILE_BYTES + 1))
    with pytest.raises(ValueError, match="more than 1048576 bytes"):
        sources.read_text(str(file))
    with pytest.raises(IsADirectoryError):
        sources.read_text(str(tmp_path))
    with pytest.raises(ValueError, match="it is not a file"):
        sources.read_text("/dev/null")
    monkeypatch.setenv("HEADGATE_TEST", "x")
    assert sources.variable("HEADGATE_TEST") == "x"
    assert sources.variable("HEADGATE_NONE") is None
    assert sources.matches("HEAD.*", "HEADGATE")
    assert not sources.matches("HEAD", "HEADGATE")
    with pytest.raises(ValueError, match="missing"):
        sources.matches("(", "")
