"""Many TLS handshakes at once: `python -m compat_tests.hostile.handshakes PORT COUNT ROUNDS`.

All connections are open before the first handshake begins. For each round a line on the standard output: begun, then
the seconds that all handshakes took.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time
from typing import Final

NICENESS: Final = 19


def context() -> ssl.SSLContext:
    """Trusts everyone, and resumes nothing."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    return made


async def rounds(port: int, count: int, number: int) -> None:
    trusting = context()
    for _ in range(number):
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]
        print("begun", flush=True)
        began_s = time.perf_counter()
        await asyncio.gather(*(writer.start_tls(trusting, ssl_handshake_timeout=60) for _, writer in opened))
        print(f"{time.perf_counter() - began_s:.3f}", flush=True)
        for _, writer in opened:
            writer.transport.abort()


if __name__ == "__main__":
    os.nice(NICENESS)
    asyncio.run(rounds(*map(int, sys.argv[1:])))
