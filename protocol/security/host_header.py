"""The header `Host` of HTTP on the loopback interface: does a program of this machine ask, or a page of another site?

Such a page, in a browser on this machine, reaches a loopback listener by a name that its owner resolves to 127.0.0.1.
So `Host` has to be an address, or `localhost`.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

_LOCAL_NAME: Final = "localhost"


def is_of_this_machine(host: bytes | None) -> bool:
    """Whether the header `Host` gives an address or `localhost`; a page of another site has another name."""
    if host is None:  # a program: browsers send it
        return True
    text = host.decode("ascii", "replace").strip().lower()
    name = text[1:].partition("]")[0] if text.startswith("[") else text.partition(":")[0]
    try:
        ip_address(name)
    except ValueError:
        return name == _LOCAL_NAME or name.endswith(f".{_LOCAL_NAME}")
    return True
