"""Headgate, a Kafka-wire-compatible broker. In a program or a test: `from gateway import Headgate`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.app.embedded import Headgate as Headgate

__all__ = ["Headgate", "__version__"]
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    """`Headgate`, imported when it is asked for: every command imports this package."""
    if name == "Headgate":
        from gateway.app.embedded import Headgate

        return Headgate
    raise AttributeError(f"module 'gateway' has no attribute {name!r}")
