"""Faults of a page for people who use no mouse, see little contrast, or hear the page: found in the browser.

Names of controls, contrast of text (WCAG 2.2, AA), headings and landmarks, ids, and sideways scrolling. `walk_by_tab`
goes through the page as a keyboard does.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

from playwright.sync_api import Page

MOST_STOPS: Final = 400
"""Of one walk by Tab: a page with more is a fault in itself."""

_FAULTS: Final = Path(__file__).with_name("page_faults.js")

_START: Final = Path(__file__).with_name("first_control.js")
_FOCUSED: Final = Path(__file__).with_name("focused_control.js")


class Stop(NamedTuple):
    """A control that Tab has reached."""

    tag: str
    name: str
    is_seen: bool
    has_outline: bool


def faults_of(page: Page) -> list[str]:
    """Sentences about faults that need no keyboard; none on a sound page."""
    faults: list[str] = page.evaluate(_FAULTS.read_text())
    return faults


def walk_by_tab(page: Page) -> list[Stop]:
    """The controls in the order of Tab, from the top of the page until it begins again."""
    page.evaluate(_START.read_text())
    focused, stops = _FOCUSED.read_text(), list[Stop]()
    for _ in range(MOST_STOPS):
        page.keyboard.press("Tab")
        active: dict[str, Any] | None = page.evaluate(focused)
        if active is None or active["number"] < len(stops):
            return stops
        stops.append(Stop(active["tag"], active["name"], active["isSeen"], active["hasOutline"]))
    raise AssertionError(f"Tab does not come around after {MOST_STOPS} controls; the last are {stops[-3:]}")


def faults_of_walk(stops: list[Stop]) -> list[str]:
    """Sentences about stops that are out of sight, or do not show that they have the focus."""
    return [f"Tab reaches what is out of sight: {stop}" for stop in stops if not stop.is_seen] + [
        f"the focus is not shown: {stop}" for stop in stops if not stop.has_outline
    ]
