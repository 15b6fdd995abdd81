"""Providers of configs (KIP-297, KIP-421): `${file:/path:key}`, `${directory:/path:key}` and `${env:NAME}` in values.

A value keeps its variables wherever it is shown or stored. A variable of a provider that is not configured is an error
here, where Kafka takes its text for the value.

Values are compared with those of Kafka's classes (`tests/scenario.py`).

Source: `ConfigTransformer`, `FileConfigProvider`, `DirectoryConfigProvider`, `EnvVarConfigProvider`, `AllowedPaths` of
org.apache.kafka.common.config, Apache Kafka 4.1.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from headgate.gateway.config.definition import split_list
from headgate.protocol import properties

PROVIDERS: Final = "config.providers"
PREFIX: Final = "config.providers."
ALLOWED_PATHS: Final = "allowed.paths"
ALLOWLIST_PATTERN: Final = "allowlist.pattern"
_CLASSES: Final = "org.apache.kafka.common.config.provider."
_FILE, _DIRECTORY, _ENVIRONMENT = (f"{_CLASSES}{kind}ConfigProvider" for kind in ("File", "Directory", "EnvVar"))
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    _FILE: (ALLOWED_PATHS,),
    _DIRECTORY: (ALLOWED_PATHS,),
    _ENVIRONMENT: (ALLOWLIST_PATTERN,),
}
"""The parameters of each class."""

_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
"""Provider, path and key, as Kafka divides them."""


class ProviderProblem(ValueError):
    """A provider that cannot be used, or a variable without a value. The text has no secret."""


class ProviderSources(Protocol):
    """Where values come from."""

    def read_text(self, path: str) -> str:
        """The text of a regular file in UTF-8. Raises OSError, ValueError."""

    def variable(self, name: str) -> str | None:
        """A variable of the environment."""

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a whole text matches a regular expression. Raises ValueError for a wrong one."""


class Variable(NamedTuple):
    """One variable of a value."""

    provider: str
    path: str
    key: str


Lookup = Callable[[Variable], str]
"""The value of a variable. Raises ProviderProblem."""


class ConfigProviders:
    """The configured providers by name."""

    def __init__(self, lookups: Mapping[str, Lookup] | None = None) -> None:
        self._lookups = lookups or {}

    def resolve(self, text: str) -> str:
        """A text with the values of its variables; these are not resolved again. Raises ProviderProblem."""
        if not self._lookups or "${" not in text:
            return text
        return _VARIABLE.sub(self._value, text)

    def is_variable(self, text: str) -> bool:
        """Whether a text is one variable and nothing else, so that it has no secret."""
        return bool(self._lookups) and _VARIABLE.fullmatch(text.strip()) is not None

    def _value(self, found: re.Match[str]) -> str:
        variable = Variable(found[1], found[3] or "", found[4])
        lookup = self._lookups.get(variable.provider)
        if lookup is None:
            names = ", ".join(self._lookups)
            raise ProviderProblem(f"{found[0]}: there is no provider {variable.provider!r}; {PROVIDERS} has {names}")
        try:
            return lookup(variable)
        except ProviderProblem as error:
            raise ProviderProblem(f"{found[0]}: {error}") from None


def make_providers(given: Mapping[str, str], sources: ProviderSources) -> ConfigProviders:
    """The providers of the given settings. Raises ProviderProblem with a sentence about one of them."""
    lookups = {}
    for name in split_list(given.get(PROVIDERS, "")):
        setting = f"{PREFIX}{name}.class"
        class_name = given.get(setting, "").strip()
        if not class_name:
            raise ProviderProblem(f"{PROVIDERS} has {name}: set {setting} to {', '.join(PARAMETERS)}")
        if class_name not in PARAMETERS:
            raise ProviderProblem(
                f"{setting}={class_name[:200]}: classes of Java are not loaded; known are {', '.join(PARAMETERS)}"
            )
        parameters = {each: given.get(f"{PREFIX}{name}.param.{each}") for each in PARAMETERS[class_name]}
        lookups[name] = _lookup(f"{PREFIX}{name}.param.", class_name, parameters, sources)
    return ConfigProviders(lookups)


def _lookup(prefix: str, class_name: str, parameters: Mapping[str, str | None], sources: ProviderSources) -> Lookup:
    if class_name == _ENVIRONMENT:
        return _environment(f"{prefix}{ALLOWLIST_PATTERN}", parameters[ALLOWLIST_PATTERN], sources)
    allowed = _allowed_paths(f"{prefix}{ALLOWED_PATHS}", parameters[ALLOWED_PATHS])
    return (_file if class_name == _FILE else _directory)(allowed, sources)


def _allowed_paths(setting: str, text: str | None) -> tuple[str, ...] | None:
    """The normalized paths; None: all."""
    if text is None or not text.strip():
        return None
    paths = split_list(text)
    for path in paths:
        if not path.startswith("/"):
            raise ProviderProblem(f"{setting}: {path[:200]!r} is not an absolute path")
    return tuple(posixpath.normpath(path) for path in paths)


def _permitted(path: str, allowed: tuple[str, ...] | None) -> str:
    """A path without `..`. Raises ProviderProblem if it lies outside of the allowed ones."""
    if not path:
        raise ProviderProblem("a path and a key are needed, as in ${file:/etc/secrets.properties:password}")
    normal = posixpath.normpath(path)
    if allowed is not None and not any(f"{normal}/".startswith(f"{each.rstrip('/')}/") for each in allowed):
        raise ProviderProblem(f"{path[:200]} is not in {ALLOWED_PATHS}")
    return normal


def _read(path: str, sources: ProviderSources) -> str:
    try:
        return sources.read_text(path)
    except OSError as error:
        raise ProviderProblem(f"{path[:200]} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ProviderProblem(f"{path[:200]} cannot be read: {error}") from None


def _file(allowed: tuple[str, ...] | None, sources: ProviderSources) -> Lookup:
    def look_up(variable: Variable) -> str:
        path = _permitted(variable.path, allowed)
        text = _read(path, sources)
        try:
            entries = {entry.name: entry.value for entry in properties.parse(text)}
        except properties.MalformedProperties:
            raise ProviderProblem(f"{path[:200]} is not a file of properties") from None
        if variable.key not in entries:
            raise ProviderProblem(f"{path[:200]} has no key {variable.key[:200]!r}")
        return entries[variable.key]

    return look_up


def _directory(allowed: tuple[str, ...] | None, sources: ProviderSources) -> Lookup:
    def look_up(variable: Variable) -> str:
        if "/" in variable.key or variable.key in {"", ".", ".."}:
            raise ProviderProblem(f"{variable.key[:200]!r} is not the name of a file in a directory")
        return _read(posixpath.join(_permitted(variable.path, allowed), variable.key), sources)

    return look_up


def _environment(setting: str, pattern: str | None, sources: ProviderSources) -> Lookup:
    if pattern is not None:
        try:
            sources.matches(pattern, "")
        except ValueError:
            raise ProviderProblem(f"{setting}: {pattern[:200]!r} is not a regular expression of RE2") from None

    def look_up(variable: Variable) -> str:
        if variable.path:
            raise ProviderProblem("a variable of the environment has no path, as in ${env:PASSWORD}")
        if pattern is not None and not sources.matches(pattern, variable.key):
            raise ProviderProblem(f"{variable.key[:200]} does not match {ALLOWLIST_PATTERN}")
        value = sources.variable(variable.key)
        if value is None:
            raise ProviderProblem(f"the environment has no variable {variable.key[:200]}")
        return value

    return look_up
