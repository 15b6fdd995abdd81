"""A console of a broker, and Chromium in front of it.

A page fails its test for each error in the browser's console and each exception of a script: a resource that the
content policy refuses is one too.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page

from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.broker import installed_command

SCREENSHOTS: Final = ROOT / "build" / "console"
FOREIGN_NAME: Final = "evil.example"
"""A name that Chromium takes for this machine, as a page of its owner would have it."""
ARGUMENTS: Final = ("--no-sandbox", f"--host-resolver-rules=MAP {FOREIGN_NAME} 127.0.0.1")
WIDE, NARROW = 1280, 390
HEIGHT: Final = 800
_READY: Final = "headgate console ready "
_START_LIMIT_S: Final = 60.0


@contextmanager
def console(bootstrap: str, arguments: Sequence[str] = ()) -> Iterator[str]:
    """The address of a console of the brokers there."""
    command = [*installed_command(), "console", "--bootstrap-server", bootstrap, "--listen", "http://127.0.0.1:0"]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        timer = threading.Timer(_START_LIMIT_S, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        try:
            assert line.startswith(_READY), line
            yield line.removeprefix(_READY).strip()
        finally:
            process.terminate()
            process.wait(_START_LIMIT_S)


@contextmanager
def opened_page(
    browser: Browser, width: int = WIDE, colors: str = "light", *, is_strict: bool = True
) -> Iterator[Page]:
    """A new visitor's page; `colors` is light or dark. Without `is_strict` the browser may complain."""
    errors: list[str] = []
    scheme: Literal["dark", "light"] = "dark" if colors == "dark" else "light"
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    try:
        yield page
    finally:
        context.close()
    assert errors == [] or not is_strict


def screenshot(page: Page, name: str) -> Path:
    """Keep what is in sight for a person to look at; the page may not scroll sideways."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path)
    width, seen = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width <= seen, f"{name}: the page is {width} pixels wide, and {seen} are seen"
    return path


def screenshots(browser: Browser, address: str, name: str, text: str) -> None:
    """Keep a view in both widths and both colours, once the text is there."""
    for width in (WIDE, NARROW):
        for colors in ("light", "dark"):
            with opened_page(browser, width, colors) as page:
                page.goto(address)
                page.get_by_text(text).first.wait_for()
                screenshot(page, f"{name}-{width}-{colors}")
