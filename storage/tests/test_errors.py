"""Sentences that a person reads when a store cannot be used."""

from __future__ import annotations

import pytest

from headgate.storage.errors import BadFile, CorruptLog, DirectoryLocked, StorageError, UnsupportedLog


def test_a_lock_names_its_holder() -> None:
    sentence = "the data directory /data is in use by process 42; stop it, or choose another log.dirs"
    assert str(DirectoryLocked("/data", 42)) == sentence
    assert str(DirectoryLocked("/data", None)).startswith("the data directory /data is in use by another process")


@pytest.mark.parametrize("kind", [BadFile, CorruptLog, DirectoryLocked, UnsupportedLog])
def test_all_are_storage_errors(kind: type[Exception]) -> None:
    assert issubclass(kind, StorageError)
