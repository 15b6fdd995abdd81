"""`crc32c`, the checksum of batches and snapshots: the function of the package crc32c, without the package.

The package reads its own version number at import. For that it loads Python's libraries of mail, zip and CSV files:
2 MB of an idle broker, and a tenth of its start.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec

from headgate.protocol.records import Buffer


def _load() -> Callable[[Buffer], int]:
    """The function of the package's native module; by way of the package where this module has another place."""
    package = find_spec("crc32c")
    native = package and PathFinder.find_spec("_crc32c", package.submodule_search_locations)
    if not native or not native.loader:
        from crc32c import crc32c as function
    else:
        module = module_from_spec(native)
        native.loader.exec_module(module)
        function = module.crc32c
    return function


crc32c = _load()
