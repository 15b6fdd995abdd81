"""Python's cache of archives."""

import importlib
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from headgate.spark.zip_importers import forget_zip_importers


def test_modules_of_archives_are_found_after_their_cache_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        for name in ("zipped_one", "zipped_two"):
            archive.writestr(f"{name}.py", f"NAME = {name!r}")
    monkeypatch.syspath_prepend(str(tmp_path / "a.zip"))
    assert importlib.import_module("zipped_one").NAME == "zipped_one"
    assert str(tmp_path / "a.zip") in sys.path_importer_cache
    forget_zip_importers()
    assert not [one for one in sys.path_importer_cache.values() if type(one).__name__ == "zipimporter"]
    assert importlib.import_module("zipped_two").NAME == "zipped_two"
    forget_zip_importers()
