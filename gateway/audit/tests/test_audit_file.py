"""The file of the audit log: off the loop, in order, to the last line at a stop; a full disk stops nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.audit import audit_file
from headgate.gateway.audit.audit_events import AuditEvent
from headgate.gateway.audit.audit_file import AuditFile
from headgate.gateway.audit.tests.audited import PATH, Audited
from headgate.gateway.runtime.tests.fake_scheduler import ManualTime
from headgate.storage.errors import StorageError
from headgate.storage.files import Files


@pytest.fixture
def audited() -> Audited:
    return Audited()


def test_a_thread_writes_what_came_meanwhile_at_once(audited: Audited) -> None:
    held = audited.time.scheduler.hold()
    for number in range(3):
        audited.file.append([{"number": number}])
    assert audited.files.content[PATH] == b""
    assert len(held.waiting) == 1
    held.run_all()
    assert [line["number"] for line in audited.lines] == [0, 1, 2]
    audited.file.append([{"number": 3}])
    held.run_all()
    assert audited.lines[-1] == {"number": 3}
    assert audited.file.written == 4


def test_the_last_lines_are_written_at_the_stop(audited: Audited) -> None:
    audited.time.scheduler.hold()
    audited.file.append([{"number": 0}, {"number": 1}])
    audited.time.scheduler.is_over = True
    audited.file.append([{"number": 2}])
    audited.file.close()
    assert [line["number"] for line in audited.lines] == [0, 1, 2]


def test_a_full_disk_is_reported_once_and_counted(audited: Audited, caplog: pytest.LogCaptureFixture) -> None:
    audited.file.append([{"number": 0}])
    audited.files.room = 5
    for number in range(3):
        audited.file.append([{"number": number}])
    assert audited.file.lost == 3
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "loses lines: No space left on device" in caplog.text
    audited.files.room = None
    audited.file.append([{"number": 9}])
    assert [line["number"] for line in audited.lines] == [0, 9], "a torn line spoils no other one"
    assert "is written again; 3 lines were lost" in caplog.messages[-1]


def test_what_waits_for_a_hanging_disk_is_bounded(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "MAX_WAITING", 2)
    held = audited.time.scheduler.hold()
    for number in range(5):
        audited.file.append([{"number": number}])
    held.run_all()
    assert (len(audited.lines), audited.file.lost) == (2, 3)


def test_an_event_that_cannot_be_described_loses_no_other(audited: Audited, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Iterator[AuditEvent]:
        raise ValueError("no such thing")
        yield {}

    held = audited.time.scheduler.hold()
    audited.file.append([{"number": 0}])
    audited.file.append(broken())
    audited.file.append([{"number": 1}])
    held.run_all()
    assert [line["number"] for line in audited.lines] == [0, 1]
    assert audited.file.lost == 1
    assert "a change that cannot be described" in caplog.text


def test_a_renamed_file_is_followed_by_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    file = AuditFile(str(path), Files(), ManualTime().scheduler)
    file.append([{"number": 0}])
    path.rename(tmp_path / "audit.log.1")
    file.append([{"number": 1}])
    assert (tmp_path / "audit.log.1").read_text() == '{"number": 0}\n'
    assert path.read_text() == '{"number": 1}\n'


def test_a_file_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(
        StorageError, match=r"headgate\.audit\.log=.*cannot be written: No such file or directory; name a"
    ):
        AuditFile(str(tmp_path / "none" / "audit.log"), Files(), ManualTime().scheduler)


def test_a_disk_that_hangs_does_not_hold_up_a_stop(
    audited: Audited, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_file, "LAST_WRITE_S", 0.01)
    with audited.file.writing:
        audited.time.scheduler.hold()
        audited.file.append([{"number": 0}])
        audited.file.close()
    assert "the disk hangs, and 1 events are lost" in caplog.text
