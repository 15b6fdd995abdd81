"""Headgate, a Kafka-wire-compatible broker. In a program or a test: `from headgate import Headgate`.

The five folders beside this file are links to those at the top of the repository; installed, they are real.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headgate.gateway.app.headgate import Headgate as Headgate

__all__ = ["Headgate", "__version__"]
__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    """`Headgate`, imported on first use: every command imports this package."""
    if name == "Headgate":
        from headgate.gateway.app.headgate import Headgate

        return Headgate
    raise AttributeError(f"module 'headgate' has no attribute {name!r}")
