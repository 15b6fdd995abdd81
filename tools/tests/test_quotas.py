"""`headgate quotas`: what is asked of the broker, what is shown, and what is said of failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import pytest

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredEntryData,
)
from headgate.protocol.messages.describe_client_quotas import (
    DEFAULT,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from headgate.protocol.schema import Message
from headgate.protocol.security.quotas import QuotaEntity
from headgate.tools import output, quotas
from headgate.tools.tests.command_output import CommandOutput, Run

Key = tuple[tuple[str, str | None], ...]


class QuotaBroker:
    """Stands for the cluster and for the client of its one broker. `error`: the answer to every request."""

    def __init__(self) -> None:
        self.quotas: dict[Key, dict[str, float]] = {}
        self.error = ErrorCode.NONE
        self.changes: list[AlterClientQuotasRequest] = []

    def __call__(self, _bootstrap: str, **_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask_any(self, key: str, ask: Callable[[Any], Any]) -> tuple[dict[str, Any], dict[str, Failure]]:
        answer = ask(self)
        return ({}, {key: answer}) if isinstance(answer, Failure) else ({key: answer}, {})

    def ask(self, request: Any) -> Message:
        if isinstance(request, DescribeClientQuotasRequest):
            if self.error:
                return DescribeClientQuotasResponse(error_code=self.error, entries=None)
            return DescribeClientQuotasResponse(entries=self._find(request))
        assert isinstance(request, AlterClientQuotasRequest)
        self.changes.append(request)
        for entry in request.entries:
            values = self.quotas.setdefault(tuple((part.entity_type, part.entity_name) for part in entry.entity), {})
            for op in () if request.validate_only or self.error else entry.ops:
                values.pop(op.key, None)
                if not op.remove:
                    values[op.key] = op.value
        return AlterClientQuotasResponse(
            entries=[AlteredEntryData(self.error, None, entry.entity) for entry in request.entries]
        )

    def _find(self, request: DescribeClientQuotasRequest) -> list[EntryData]:
        wanted = {(part.entity_type, None if part.match_type == DEFAULT else part.match) for part in request.components}
        return [
            EntryData([EntityData(*name) for name in names], [ValueData(*item) for item in values.items()])
            for names, values in self.quotas.items()
            if wanted <= set(names) and (not request.strict or len(wanted) == len(names))
        ]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> QuotaBroker:
    broker = QuotaBroker()
    broker.quotas = {
        (("user", "alice"),): {"producer_byte_rate": 1024.0},
        (("client-id", "c"), ("user", None)): {"request_percentage": 12.5},
        (("ip", None),): {"connection_creation_rate": 10.0},
    }
    monkeypatch.setattr(output, "Cluster", broker)
    return broker


@pytest.fixture
def run(broker: QuotaBroker, capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: str) -> CommandOutput:
        code = quotas.main(arguments)
        captured = capsys.readouterr()
        return CommandOutput(code, captured.out, captured.err)

    return run_command


def test_list_shows_each_owner_with_its_quotas(run: Run) -> None:
    none = {"producer_byte_rate": None, "request_percentage": None, "connection_creation_rate": None}
    assert run("list").rows == [
        {"user": "<default>", "client_id": "c", "ip": None, **none, "request_percentage": 12.5},
        {"user": None, "client_id": None, "ip": "<default>", **none, "connection_creation_rate": 10},
        {"user": "alice", "client_id": None, "ip": None, **none, "producer_byte_rate": 1024},
    ]


def test_list_of_an_owner(run: Run) -> None:
    assert [row["user"] for row in run("list", "--user", "alice").rows] == ["alice"]
    assert [row["client_id"] for row in run("list", "--user-default").rows] == ["c"]


def test_set_shows_the_values_before_and_after(run: Run, broker: QuotaBroker) -> None:
    shown = run("set", "--user", "alice", "producer_byte_rate=2048", "request_percentage=0.5")
    owner = {"user": "alice", "client_id": None, "ip": None}
    assert shown.rows == [
        {**owner, "quota": "producer_byte_rate", "before": 1024, "after": 2048},
        {**owner, "quota": "request_percentage", "before": None, "after": 0.5},
    ]
    assert broker.quotas[(("user", "alice"),)] == {"producer_byte_rate": 2048.0, "request_percentage": 0.5}


def test_both_a_user_and_a_client_id_own_quotas(run: Run, broker: QuotaBroker) -> None:
    assert run("set", "--user-default", "--client-id", "new", "consumer_byte_rate=1").code == 0
    assert broker.quotas[("client-id", "new"), ("user", None)] == {"consumer_byte_rate": 1.0}


def test_a_dry_run_is_checked_by_the_broker_alone(run: Run, broker: QuotaBroker) -> None:
    shown = run("set", "--user", "alice", "producer_byte_rate=1", "--dry-run")
    assert [request.validate_only for request in broker.changes] == [True]
    assert shown.rows[0]["after"] == 1
    assert broker.quotas[(("user", "alice"),)] == {"producer_byte_rate": 1024.0}


def test_remove_takes_all_quotas_of_an_owner(run: Run, broker: QuotaBroker) -> None:
    [row] = run("remove", "--ip-default").rows
    assert (row["ip"], row["quota"], row["before"], row["after"]) == (
        "<default>",
        "connection_creation_rate",
        10,
        None,
    )
    assert broker.quotas[(("ip", None),)] == {}


def test_remove_of_a_quota_that_is_not_there_is_refused(run: Run) -> None:
    shown = run("remove", "--user", "alice", "request_percentage")
    assert (shown.code, shown.errors) == (
        1,
        ["user 'alice' has no quota request_percentage; `headgate quotas list` shows all"],
    )
    assert "has no quota" in run("remove", "--user", "nobody").errors[0]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["request_percentage=1"], "name the owner of the quotas"),
        (["--ip", "::1", "--user", "a", "connection_creation_rate=1"], "an address has its quotas alone"),
        (["--ip", "::1", "request_percentage=1"], "there are connection_creation_rate"),
        (["--user", "a", "producer_byte_rates=1"], "has no quota 'producer_byte_rates'; there are producer_byte_rate"),
    ],
)
def test_quotas_that_no_owner_has_are_refused(
    run: Run, broker: QuotaBroker, arguments: list[str], sentence: str
) -> None:
    shown = run("set", *arguments)
    assert shown.code == 1
    assert sentence in shown.errors[0]
    assert not broker.changes


@pytest.mark.parametrize("text", ["producer_byte_rate", "=1", "producer_byte_rate=", "a=nan", "a=inf", "a=1MB"])
def test_what_is_no_quota_is_refused(run: Run, capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit) as end:
        run("set", "--user", "a", text)
    assert end.value.code == 2
    assert "is no quota; write a name and a number" in capsys.readouterr().err


def test_refusals_of_the_broker_are_explained(run: Run, broker: QuotaBroker) -> None:
    broker.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "log in as one of super.users" in run("list").errors[0]
    broker.error = ErrorCode.INVALID_REQUEST
    assert run("list").code == 1


def test_the_effective_quotas_of_a_client_name_their_entities(broker: QuotaBroker) -> None:
    known = {QuotaEntity(names): values for names, values in broker.quotas.items()}
    found = {
        name: quota and (quota.entity.names, quota.bound)
        for name, quota in quotas.effective_quotas(known, "alice", "c", "10.0.0.1").items()
    }
    assert found == {
        "producer_byte_rate": ((("user", "alice"),), 1024),
        "consumer_byte_rate": None,
        "request_percentage": ((("client-id", "c"), ("user", None)), 12.5),
        "controller_mutation_rate": None,
        "connection_creation_rate": ((("ip", None),), 10),
    }
    assert "connection_creation_rate" not in quotas.effective_quotas(known, "alice", "c")
