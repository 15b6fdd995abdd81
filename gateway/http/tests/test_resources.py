"""The table of resources."""

import pytest

from headgate.gateway.http.resources import TEXT, HttpAnswer, HttpResource, HttpResources


def resource(text: bytes) -> HttpResource:
    return HttpResource("one of them", lambda: HttpAnswer(TEXT, [text]))


def test_a_resource_is_found_by_its_path() -> None:
    resources = HttpResources()
    resources.add("/a", resource(b"a"))
    found = resources.find("/a")
    assert found is not None
    assert found.answer() == HttpAnswer(TEXT, [b"a"], 200)
    for path in ("/b", "/a/", "/A", "", "a"):
        assert resources.find(path) is None


def test_the_list_of_all_is_at_the_root() -> None:
    resources = HttpResources()
    resources.add("/longer", resource(b""))
    index = resources.find("/")
    assert index is not None
    assert b"".join(index.answer().body) == b"/        this list\n/longer  one of them\n"
    assert resources.paths() == ["/", "/longer"]


@pytest.mark.parametrize("path", ["/", "a", ""])
def test_a_path_has_one_resource(path: str) -> None:
    with pytest.raises(ValueError, match="has a resource already, or does not begin with /"):
        HttpResources().add(path, resource(b""))
