"""The checksum of batches: the package's own function, without the package."""

import subprocess
import sys
from types import SimpleNamespace

import crc32c as package
import pytest

from headgate.protocol.records import checksum


def test_the_function_is_the_one_of_the_package() -> None:
    data = bytes(range(256)) * 5
    for start in range(20):
        assert checksum.crc32c(memoryview(data)[start:]) == package.crc32c(data[start:])
    assert checksum.crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C


def test_without_the_native_module_in_its_place_the_package_gives_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{checksum.__name__}.PathFinder", SimpleNamespace(find_spec=lambda *_: None))
    assert checksum._load() is package.crc32c


@pytest.mark.sockets
@pytest.mark.slow
def test_the_broker_loads_no_library_of_mail() -> None:
    program = "import sys, headgate.gateway.app.broker; sys.exit('email' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
