"""The configuration of one broker: typed and checked, also for changes while the broker runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import TYPE_CHECKING, Any

from headgate.gateway.config import broker_table, catalogue, listeners, offset_store, topic_config
from headgate.gateway.config.definition import LONG_MAX, Effect, Value
from headgate.gateway.config.http import http_addresses, http_settings
from headgate.gateway.config.listeners import Listener, ListenerProblem
from headgate.gateway.config.loading import ConfigError, Loaded, Overrides, Setting, SettingOutcome, load
from headgate.gateway.config.providers.sources import ProcessSources
from headgate.gateway.config.providers.variables import ConfigProviders, ProviderSources

if TYPE_CHECKING:
    from headgate.storage.config import LogConfig


ACL_AUTHORIZERS = ("kafka.security.authorizer.AclAuthorizer", "kafka.security.auth.SimpleAclAuthorizer")
"""Kafka's authorizers with ZooKeeper. Here they read the same ACLs as StandardAuthorizer."""
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PYTHON_PREFIX = "python:"


class BrokerConfig(broker_table.Settings):
    """Kafka's broker settings: `config.num_partitions`, or `config["num.partitions"]`.

    `load` makes a configuration; afterwards only `change` changes it, to the dynamic settings. So code reads a value
    when it is needed, and keeps no copy. Other attributes: `log_directories`, `inter_broker_listener`, the
    name of the listener between brokers, and `answers` with the outcome of every given line.
    """

    log_directories: tuple[str, ...]
    inter_broker_listener: str
    answers: tuple[SettingOutcome, ...]

    def __init__(
        self,
        values: Mapping[str, Any],
        given: Mapping[str, Setting],
        answers: tuple[SettingOutcome, ...],
        providers: ConfigProviders,
    ) -> None:
        self.__dict__.update((name.replace(".", "_"), value) for name, value in values.items())
        self.answers = answers
        self.log_directories = values["log.dirs"]
        self.inter_broker_listener = listeners.inter_broker_listener(
            values["inter.broker.listener.name"], values["security.inter.broker.protocol"], values["listeners"]
        )
        self._given = given
        self._providers = providers
        self._resolved: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        """The dynamic texts with the values of their variables."""
        self._dynamic: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {})
        self._unfit: dict[tuple[str, str], str] = {}
        """The dynamic texts that do not fit, which were logged."""
        self._started_with = {name: values[name] for name in broker_table.CLUSTER_WIDE}
        self._plain_log_config: LogConfig | None = None

    @classmethod
    def load(
        cls,
        properties_text: str = "",
        overrides: Overrides = (),
        source: str = "server.properties",
        sources: ProviderSources | None = None,
    ) -> BrokerConfig:
        """Read the text of a `server.properties`; overrides win. Raises ConfigError with all problems.

        `sources`: where the values of variables come from; None: the files and the environment of this process.
        """
        loaded = load(properties_text, overrides, source, sources or ProcessSources())
        for check in _CHECKS:
            check(loaded)
        if loaded.problems:
            raise ConfigError(loaded.problems)
        return cls(loaded.values, loaded.given, tuple(loaded.answers), loaded.providers)

    def __getitem__(self, name: str) -> Any:
        """The value of a setting by Kafka's name; without effect, the given value or None. Raises KeyError."""
        if name in catalogue.BROKER:
            return getattr(self, name.replace(".", "_"))
        definition = catalogue.find(name)
        if definition is None:
            raise KeyError(f"unknown setting {name!r}: {catalogue.nearest_broker_setting(name)}")
        given = self._given.get(name)
        return None if given is None else definition.parse(given.text)

    def __repr__(self) -> str:
        shown = (f"{answer.name}={answer.value}" for answer in self.answers)
        return f"BrokerConfig({', '.join(shown)})"

    def given(self) -> Mapping[str, str]:
        """The given texts by name. Secrets are in plain text: check before showing them."""
        return {name: setting.text for name, setting in self._given.items()}

    def change(self, of_all: Mapping[str, str], own: Mapping[str, str]) -> None:
        """Apply the dynamic settings of all brokers and, with precedence, of this one; `dynamic` has checked them.

        A setting in neither returns to its value at the start of the broker. A value of another version that does not
        fit is skipped, and logged once.
        """
        if self._dynamic == (own, of_all):  # files behind variables are not read again
            return
        fitting = {}
        unfit = {}
        for of, texts in (("own", own), ("all", of_all)):
            values = {name: self._fitting(name, text) for name, text in texts.items()}
            fitting[of] = {name: text for name, text in values.items() if text is not None}
            unfit.update({(of, name): texts[name] for name, text in values.items() if text is None})
        for key, value in unfit.items():
            if self._unfit.get(key) != value:
                _log_unfit(key[1])
        self._unfit = unfit
        self._dynamic = (
            {name: text for name, text in own.items() if ("own", name) not in unfit},
            {name: text for name, text in of_all.items() if ("all", name) not in unfit},
        )
        self._resolved = (fitting["own"], fitting["all"])
        self._plain_log_config = None
        for name, value in self._started_with.items():
            text = fitting["own"].get(name, fitting["all"].get(name))
            self.__dict__[name.replace(".", "_")] = value if text is None else catalogue.BROKER[name].parse(text)

    def _fitting(self, name: str, text: str) -> str | None:
        """A dynamic text with the values of its variables; None if it does not fit, or has a variable without one."""
        definition = catalogue.find(name)
        try:
            if definition is not None and catalogue.is_dynamic(name):
                resolved = self._providers.resolve(text)
                definition.parse(resolved)
                return resolved
        except ValueError:
            pass
        return None

    @property
    def secures_http(self) -> bool:
        """Whether an HTTP listener needs TLS and users."""
        return any(address.has_tls for address in self.headgate_http_listeners)

    @property
    def wants_http(self) -> bool:
        """Whether the HTTP listeners were given, so that the start needs their addresses."""
        return http_addresses.SETTING in self._given or http_addresses.OLD_SETTING in self._given

    @property
    def wants_console(self) -> bool:
        """Whether the console's listeners were given, so that the start needs their addresses."""
        return http_addresses.CONSOLE_SETTING in self._given

    @property
    def providers(self) -> ConfigProviders:
        """The providers of values that stand in files or in the environment."""
        return self._providers

    def with_dynamic(self, of_all: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
        """A copy with other dynamic settings, see `change`: to try them."""
        changed = copy(self)
        changed.change(of_all, own)
        return changed

    def at_start(self, name: str) -> Any:
        """The value of a setting when the broker started."""
        return self._started_with[name] if name in self._started_with else self[name]

    def texts(self, name: str) -> tuple[str | None, str | None, str | None]:
        """The texts of a setting: dynamic for this broker, dynamic for all, and from the start. The first wins.

        They have variables in place of the values of providers.
        """
        own, of_all = self._dynamic
        given = self._given.get(name)
        return own.get(name), of_all.get(name), None if given is None else given.unresolved or given.text

    def dynamic(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """The dynamic texts for this broker, and those for all."""
        return self._dynamic

    def notes(self) -> list[SettingOutcome]:
        """The answers that a person should see: given settings without effect, and one of those with older names."""
        notes = [answer for answer in self.answers if answer.effect is not Effect.FULL]
        renamed = [answer for answer in notes if answer.effect is Effect.RENAMED]
        return [note for note in notes if note not in renamed[1:]]

    def advertised_address(self, listener: str, local_host: str, local_port: int) -> tuple[str, int]:
        """The address that clients of `listener` should connect to: as configured, or else the one they connected to.

        An advertised port of 0 means the port that the client connected to.
        """
        for endpoint in self.advertised_listeners:
            if endpoint.name == listener:
                return endpoint.host, endpoint.port or local_port
        return local_host, local_port

    def listener_value(self, listener: str, name: str) -> Any:
        """The value of a setting that a listener has for itself (`broker_table.OF_LISTENERS`); None if it has none.

        `name` is also "<mechanism>.<setting>", for what a mechanism of the listener has for itself (`OF_MECHANISMS`).
        """
        for listener_name in http_settings.names_of(listener, self.listeners):
            full_name = f"{catalogue.LISTENER_PREFIX}{listener_name.lower()}.{name}"
            text, definition = self._present_text(full_name), catalogue.find(full_name)
            if text is not None and definition is not None:
                return definition.parse(text)
        return None

    def present_value(self, name: str) -> Value:
        """The value of a setting that can change for this broker alone: as set at run time, else as given."""
        text = self._present_text(name)
        return catalogue.BROKER[name].default_value() if text is None else catalogue.BROKER[name].parse(text)

    def _present_text(self, name: str) -> str | None:
        given = self._given.get(name)
        texts = (*(texts.get(name) for texts in self._resolved), None if given is None else given.text)
        return next((text for text in texts if text is not None), None)

    def topic_value(self, name: str, overrides: Mapping[str, str]) -> Value:
        """The value of a topic setting: the topic's own, else the first configured broker synonym's, else the default.

        `overrides`: the topic's own, checked configs.
        """
        definition = catalogue.TOPIC[name]
        own = topic_config.own_name(name, overrides)
        if own is not None:
            return definition.parse(overrides[own])
        for synonym in catalogue.BROKER_SYNONYMS[name]:
            if any(text is not None for text in self.texts(synonym)):
                return _in_topic_unit(synonym, self[synonym])
        return definition.default_value()

    def log_config(self, overrides: Mapping[str, str]) -> LogConfig:
        """The storage settings of one log, from the checked configs of its topic.

        A topic's own configs alone are resolved for the topic: many topics may have some.
        """
        # Not at the head: commands that read settings alone would load `dataclasses` too
        from dataclasses import replace

        from headgate.storage.config import LogConfig

        if self._plain_log_config is None:
            self._plain_log_config = LogConfig(**self._log_values(catalogue.TOPIC, {}))
        if not overrides:
            return self._plain_log_config
        names = (*overrides, *topic_config.settings_by_older_name(overrides))
        values = self._log_values((name for name in names if name in catalogue.TOPIC), overrides)
        return replace(self._plain_log_config, **values)

    def _log_values(self, names: Iterable[str], overrides: Mapping[str, str]) -> dict[str, Any]:
        """Values for `LogConfig`, whose fields are names of settings with underscores."""
        return {name.replace(".", "_"): self.topic_value(name, overrides) for name in names}


def _in_topic_unit(synonym: str, value: Value) -> Value:
    factor = catalogue.unit_factor(synonym)
    if factor == 1 or not isinstance(value, int) or value < 0:
        return value
    return value * factor


def _log_unfit(name: str) -> None:
    import logging  # imported only when needed, so that commands start fast

    logger = logging.getLogger("headgate.config")
    logger.error("%s: the dynamic value does not fit this version, and is ignored", name)


def _check_identity(loaded: Loaded) -> None:
    node_id, broker_id = loaded.values["node.id"], loaded.values["broker.id"]
    if node_id is not None and broker_id not in (-1, node_id):
        loaded.problem("broker.id", f"node.id is {node_id}; they mean the same, so remove one")
    if node_id is None:
        loaded.values["node.id"] = broker_id if broker_id != -1 else 0
    roles = loaded.given.get("process.roles")
    if roles is not None and "broker" not in roles.text:
        loaded.problem(
            "process.roles",
            "this program runs only the broker role; add broker, or remove the line",
        )


def _check_directories(loaded: Loaded) -> None:
    given = loaded.values["log.dirs"]
    directories = (loaded.values["log.dir"],) if given is None else given
    loaded.values["log.dirs"] = directories
    if len({directory.rstrip("/") for directory in directories}) < len(directories):
        loaded.problem("log.dirs", "a directory is listed twice; list each once")
    if not directories or not all(directories):
        loaded.problem(
            "log.dirs" if "log.dirs" in loaded.given else "log.dir",
            "a directory name is empty; name a directory, or remove the line",
        )


def _check_listeners(loaded: Loaded) -> None:
    protocols = _parsed(loaded, "listener.security.protocol.map", listeners.parse_protocol_map)
    opened = _without_controller(loaded, "listeners", _parsed(loaded, "listeners", listeners.parse))
    advertised = _without_controller(
        loaded, "advertised.listeners", _parsed(loaded, "advertised.listeners", listeners.parse)
    )
    addresses = _parsed(loaded, http_addresses.SETTING, http_addresses.parse)
    old_addresses = _parsed(loaded, http_addresses.OLD_SETTING, http_addresses.parse_old)
    _parsed(loaded, http_addresses.CONSOLE_SETTING, http_addresses.parse_console)
    if loaded.problems:
        return
    _attempt(loaded, "listeners", lambda: listeners.check_listeners(opened, protocols))
    http_settings.take(loaded, addresses, old_addresses)
    _attempt(loaded, "advertised.listeners", lambda: listeners.check_advertised(advertised, opened))
    if loaded.values["zookeeper.connect"] is not None:
        _attempt(loaded, "listeners", lambda: listeners.check_registered(opened, advertised))
    _check_inter_broker(loaded, opened, advertised)


def _check_inter_broker(loaded: Loaded, opened: tuple[Listener, ...], advertised: tuple[Listener, ...]) -> None:
    """Check the listener between brokers, if the file names one: without a name any set of listeners is legal."""
    by_name, by_protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    given = [name for name in (by_name, by_protocol) if name in loaded.given]
    if len(given) > 1:
        loaded.problem(by_name, f"Only one of {by_name} and {by_protocol} should be set; remove one")
    elif given:
        listener = loaded.values[given[0]].strip().upper()
        _attempt(loaded, given[0], lambda: listeners.check_inter_broker(listener, opened, advertised))


def _note_unknown_listeners(loaded: Loaded) -> None:
    """Settings of a listener that does not exist have no effect, as in Kafka; here their answers say so."""
    if loaded.problems:
        return
    names = [listener.name.lower() for listener in loaded.values["listeners"]]
    if any(address.has_tls for address in loaded.values[http_addresses.SETTING]):
        names.append(http_addresses.HTTP.lower())
    for index, answer in enumerate(loaded.answers):
        listener = answer.name.removeprefix(catalogue.LISTENER_PREFIX).partition(".")[0]
        if answer.effect is Effect.FULL and answer.name.startswith(catalogue.LISTENER_PREFIX) and listener not in names:
            reason = f"no listener has the name {listener}; in lower case, the names are {', '.join(names)}"
            loaded.answers[index] = answer._replace(effect=Effect.NONE, reason=reason)


def _check_zookeeper(loaded: Loaded) -> None:
    connect = loaded.values["zookeeper.connect"]
    if connect is None:
        return
    loaded.values["zookeeper.connect"] = None
    if connect.strip():
        _parsed_text(loaded, "zookeeper.connect", connect.strip(), listeners.parse_zookeeper)


def _check_offset_stores(loaded: Loaded) -> None:
    name = "headgate.offsets.store"
    text = loaded.values[name]
    loaded.values[name] = ()
    try:
        loaded.values[name] = patterns = offset_store.parse_patterns(text)
    except ValueError as error:
        loaded.problem(name, str(error))
        return
    if loaded.values["zookeeper.connect"] is None and any(one.store != offset_store.DEFAULT for one in patterns):
        loaded.problem(name, "without zookeeper.connect there is one store; set it, or remove the line")


def _check_authorizer(loaded: Loaded) -> None:
    class_name, super_users = "authorizer.class.name", "super.users"
    loaded.values[class_name] = loaded.values[class_name].strip()
    try:
        _check_class_name(loaded.values[class_name])
    except ValueError as error:
        loaded.problem(class_name, str(error))
    try:
        loaded.values[super_users] = _parse_super_users(loaded.values[super_users])
    except ValueError as error:
        loaded.problem(super_users, str(error))


def _check_class_name(text: str) -> None:
    """Check `authorizer.class.name`. Raises ValueError."""
    if text in ("", STANDARD_AUTHORIZER, *ACL_AUTHORIZERS):
        return
    if not text.startswith(PYTHON_PREFIX):
        raise ValueError(
            f"classes of Java are not loaded; allowed are {STANDARD_AUTHORIZER}, {' and '.join(ACL_AUTHORIZERS)}, and "
            "python:module:Class for a class in Python"
        )
    python_class(text)


def python_class(text: str) -> tuple[str, str]:
    """The module and the class of `python:module:Class`. Raises ValueError."""
    module, colon, name = text.removeprefix(PYTHON_PREFIX).partition(":")
    if not colon or not name.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        raise ValueError("a class in Python is written as python:module:Class, as in python:company.kafka:Authorizer")
    return module, name


def _parse_super_users(text: str) -> frozenset[str]:
    """The principals of `super.users`, separated by semicolons. Raises ValueError."""
    principals = [part.strip() for part in text.split(";") if part.strip()]
    for principal in principals:
        if ":" not in principal:
            raise ValueError(
                f"expected a string in format principalType:principalName but got {principal}; a user is written as "
                "User:alice, several are separated by semicolons"
            )
    return frozenset(principals)


def _parsed(loaded: Loaded, name: str, parse: Callable[[str], Any]) -> Any:
    text = loaded.values[name] or ""
    loaded.values[name] = ()
    _parsed_text(loaded, name, text, parse)
    return loaded.values[name]


def _parsed_text(loaded: Loaded, name: str, text: str, parse: Callable[[str], Any]) -> None:
    _attempt(loaded, name, lambda: loaded.values.__setitem__(name, parse(text)))


def _attempt(loaded: Loaded, name: str, check: Callable[[], None]) -> None:
    try:
        check()
    except ListenerProblem as error:
        loaded.problem(name, str(error))


def _without_controller(loaded: Loaded, name: str, endpoints: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Remove the endpoints of a KRaft controller (`controller.listener.names`), with an answer for each."""
    setting = loaded.given.get("controller.listener.names")
    controller = {part.strip().upper() for part in setting.text.split(",")} if setting else set()
    kept = tuple(endpoint for endpoint in endpoints if endpoint.name not in controller)
    for endpoint in endpoints:
        if endpoint not in kept:
            reason = f"there is no KRaft quorum: {endpoint.name} is left out of {name}"
            loaded.answers.append(SettingOutcome(loaded.given[name].where, name, "", Effect.NONE, reason))
    loaded.values[name] = kept
    return kept


def _check_order(loaded: Loaded) -> None:
    for lesser, greater in broker_table.ORDERED:
        low, high = loaded.values[lesser], loaded.values[greater]
        if low > high:
            loaded.problem(
                lesser if lesser in loaded.given else greater, f"{lesser}={low} must not exceed {greater}={high}"
            )


def _lift_limits(loaded: Loaded) -> None:
    if loaded.values["queued.max.request.bytes"] == -1:
        loaded.values["queued.max.request.bytes"] = LONG_MAX


_CHECKS: tuple[Callable[[Loaded], None], ...] = (
    _check_identity,
    _check_directories,
    _check_zookeeper,
    _check_offset_stores,
    _check_listeners,
    _note_unknown_listeners,
    _check_authorizer,
    _check_order,
    _lift_limits,
)
