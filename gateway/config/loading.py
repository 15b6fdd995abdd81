"""The loader: from a `server.properties` and overrides to values, with an answer to every line and all problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from headgate.gateway.config import catalogue
from headgate.gateway.config.definition import Definition, Effect, note
from headgate.gateway.config.providers.variables import (
    PREFIX,
    PROVIDERS,
    ConfigProviders,
    ProviderProblem,
    ProviderSources,
    make_providers,
)
from headgate.protocol import properties

# A mapping by name, or `name=value` texts.
Overrides = Mapping[str, str] | Iterable[str]


class Setting(NamedTuple):
    """A given text, its setting's name, and its source."""

    name: str
    text: str
    where: str
    unresolved: str = ""
    """The text with its variables (`providers`): it may be shown if the setting is no secret."""


class SettingOutcome(NamedTuple):
    """The outcome of one given setting. `value` is safe to show."""

    where: str
    name: str
    value: str
    effect: Effect
    reason: str

    @property
    def is_warning(self) -> bool:
        """Whether the effect of the setting is another one in a later version."""
        return self.effect in (Effect.PENDING, Effect.RENAMED)

    def __str__(self) -> str:
        if self.effect is Effect.FULL:
            return f"{self.where}: {self.name}={self.value}"
        return f"{self.where}: {self.name}: {note(self.effect, self.reason)}"


class ConfigError(Exception):
    """A configuration that a broker cannot start with; `problems` has one sentence for each problem."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class Loaded:
    """The given settings by name, the values of the broker's table, and answers and problems in line order."""

    def __init__(self) -> None:
        self.given: dict[str, Setting] = {}
        self.values: dict[str, Any] = {}
        self.answers: list[SettingOutcome] = []
        self.problems: list[str] = []
        self.providers = ConfigProviders()

    def problem(self, name: str, text: str) -> None:
        """Add a problem with a setting, given or not."""
        setting = self.given.get(name)
        self.problems.append(f"{setting.where}: {name}={_shown(setting)}: {text}" if setting else f"{name}: {text}")


def load(text: str, overrides: Overrides, source: str, sources: ProviderSources) -> Loaded:
    """Read settings one by one, with the checks that need only that setting."""
    loaded = Loaded()
    for setting in _resolved(list(_settings(text, overrides, source, loaded)), sources, loaded):
        before = loaded.given.get(setting.name)
        loaded.given[setting.name] = setting
        _take(setting, loaded)
        if before is not None and "override" not in setting.where:
            loaded.answers.append(
                SettingOutcome(
                    before.where,
                    setting.name,
                    "",
                    Effect.NONE,
                    f"{setting.where} sets it again, and the last one counts",
                )
            )
    for definition in catalogue.BROKER.values():
        if definition.name not in loaded.values:
            loaded.values[definition.name] = definition.default_value()
    return loaded


def _settings(text: str, overrides: Overrides, source: str, loaded: Loaded) -> Iterable[Setting]:
    try:
        for entry in properties.parse(text):
            yield Setting(entry.name, entry.value, f"{source} line {entry.line}")
    except properties.MalformedProperties as error:
        loaded.problems.append(f"{source} {error}")
    for name, value in _pairs(overrides, loaded):
        yield Setting(name, value, "override")


def _resolved(settings: list[Setting], sources: ProviderSources, loaded: Loaded) -> Iterable[Setting]:
    """The settings with the values of their variables; none for a variable without a value, which is a problem."""
    given = {setting.name: setting.text for setting in settings}
    try:
        providers = loaded.providers = make_providers(given, sources)
    except ProviderProblem as error:
        loaded.problems.append(str(error))
        return
    for setting in settings:
        if setting.name == PROVIDERS or setting.name.startswith(PREFIX):
            yield setting
            continue
        try:
            yield setting._replace(text=providers.resolve(setting.text), unresolved=setting.text)
        except ProviderProblem as error:
            loaded.problems.append(f"{setting.where}: {setting.name}: {error}")


def _pairs(overrides: Overrides, loaded: Loaded) -> Iterable[tuple[str, str]]:
    if isinstance(overrides, Mapping):
        yield from overrides.items()
        return
    for text in overrides:
        name, equals, value = text.partition("=")
        if equals:
            yield name.strip(), value
        else:
            loaded.problems.append(f"override {text}: there is no '='; write --override name=value")


def _take(setting: Setting, loaded: Loaded) -> None:
    definition = catalogue.find(setting.name)
    if definition is None:  # the value stays hidden: it may be a secret under a misspelt name
        loaded.problems.append(
            f"{setting.where}: unknown setting {setting.name!r}: {catalogue.nearest_broker_setting(setting.name)}"
        )
        return
    shown = _shown(setting)
    if definition.effect is Effect.REFUSED:
        _refuse_unless_harmless(setting, definition, loaded)
        return
    try:
        value = definition.parse(setting.text)
    except ValueError as error:
        loaded.problems.append(f"{setting.where}: {setting.name}={shown}: allowed is {error}")
        return
    if definition.name in catalogue.BROKER:
        loaded.values[definition.name] = value
    reason = "" if definition.effect is Effect.FULL else definition.reason
    loaded.answers.append(SettingOutcome(setting.where, setting.name, shown, definition.effect, reason))


def _shown(setting: Setting) -> str:
    """The text of a setting as others may see it."""
    definition = catalogue.find(setting.name)
    return "[hidden]" if definition is None or definition.is_sensitive else setting.unresolved or setting.text


def _refuse_unless_harmless(setting: Setting, definition: Definition, loaded: Loaded) -> None:
    if setting.text.strip() in definition.harmless:
        loaded.answers.append(
            SettingOutcome(
                setting.where, setting.name, _shown(setting), Effect.NONE, "the broker behaves that way in any case"
            )
        )
    else:
        loaded.problems.append(f"{setting.where}: {setting.name}={_shown(setting)}: {definition.reason}")
