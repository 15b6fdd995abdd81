"""The checks of accessibility find planted faults, and none on a sound page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from compat_tests.console.accessibility import faults_of, faults_of_walk, walk_by_tab

SOUND = """<!doctype html><html lang="en"><title>t</title><style>body {{ color: #222; background: #fff }}</style><body>
  <main><h1>Title</h1><label>Name <input></label><button>Go</button>{}</main></body></html>"""


def test_a_sound_page_has_no_fault(page: Page) -> None:
    page.set_content(SOUND.format(""))
    assert faults_of(page) == []
    stops = walk_by_tab(page)
    assert [stop.tag for stop in stops] == ["input", "button"]
    assert faults_of_walk(stops) == []


@pytest.mark.parametrize(
    "planted, fault",
    [
        ("<p style='color: #888'>grey</p>", "contrast 3.54"),
        ("<p style='background: #333'><b style='opacity: 1'>dark</b></p>", "contrast 1.26"),
        ("<input placeholder=name>", "no name: input"),
        ("<button></button>", "no name: button"),
        ("<img>", "no alt"),
        ("<button tabindex=2>x</button>", "tabindex above 0"),
        ("<i id=a></i><i id=a></i>", "the id a is there twice"),
        ("<button aria-controls=nowhere>x</button>", "names nowhere"),
        ("<h1>Another</h1>", "not one h1"),
        ("<h3>Left out</h3>", "a level of headings is left out"),
        ("<div style='width: 3000px'>wide</div>", "the page scrolls sideways"),
    ],
)
def test_a_planted_fault_is_found(page: Page, planted: str, fault: str) -> None:
    page.set_content(SOUND.format(planted))
    assert [found for found in faults_of(page) if fault in found]


@pytest.mark.parametrize(
    "planted, fault",
    [
        ("<button style='outline: none'>x</button>", "the focus is not shown"),
        ("<button style='position: absolute; left: -999px'>x</button>", "out of sight"),
    ],
)
def test_a_planted_fault_of_the_keyboard_is_found(page: Page, planted: str, fault: str) -> None:
    page.set_content(SOUND.format(planted))
    assert [found for found in faults_of_walk(walk_by_tab(page)) if fault in found]
