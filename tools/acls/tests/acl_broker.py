"""A broker with ACLs as plain values, behind the interface of a cluster's client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, TypeVar

from headgate.protocol.acls import AclBinding, AclFilter, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from headgate.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from headgate.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headgate.protocol.schema import Message

T = TypeVar("T")
_Ask = Callable[[Any], Any]


def acl(
    principal: str = "User:alice",
    operation: AclOperation = AclOperation.READ,
    name: str = "orders",
    *,
    resource: AclResource = AclResource.TOPIC,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
    permission: AclPermission = AclPermission.ALLOW,
) -> AclBinding:
    return AclBinding(resource, name, pattern, principal, host, operation, permission)


class AclBroker:
    """Stands for the cluster and for the client of its one broker. `error`: the answer to every request about ACLs."""

    def __init__(self, *acls: AclBinding) -> None:
        self.acls = dict.fromkeys(acls)
        self.error = ErrorCode.NONE
        self.refused: dict[AclBinding, ErrorCode] = {}
        self.settings: dict[str, str | None] = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin; User:CN=broker,O=x",
            "allow.everyone.if.no.acl.found": "false",
            "headgate.authorizer.mode": "enforce",
        }
        self.asked: list[Message] = []

    def __call__(self, _bootstrap: str, **_: object) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask_any(self, key: str, ask: _Ask) -> tuple[dict[str, Any], dict[str, Failure]]:
        answer = ask(self)
        return ({}, {key: answer}) if isinstance(answer, Failure) else ({key: answer}, {})

    def ask_all_brokers(self, ask: Callable[[Any, list[int]], Any]) -> tuple[dict[int, Any], dict[int, Failure]]:
        answers = dict(ask(self, [0]))
        failed = {node: answer for node, answer in answers.items() if isinstance(answer, Failure)}
        return {node: answer for node, answer in answers.items() if node not in failed}, failed

    def version(self, _kind: type[Message], newest: int, oldest: int = 0) -> int:
        assert oldest == 1
        return newest

    def ask(self, request: Any, version: int | None = None) -> Message:
        self.asked.append(request)
        if isinstance(request, DescribeConfigsRequest):
            return self._describe_configs(request)
        if isinstance(request, DescribeAclsRequest):
            return self._describe(request)
        if isinstance(request, CreateAclsRequest):
            return CreateAclsResponse(results=[self._create(_binding(each)) for each in request.creations])
        assert isinstance(request, DeleteAclsRequest)
        return DeleteAclsResponse(filter_results=[self._delete(_filter(each)) for each in request.filters])

    def _describe(self, request: DescribeAclsRequest) -> Message:
        found = [binding for binding in self.acls if _filter(request).matches(binding)]
        rows = [
            DescribeAclsResource(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                [AclDescription(each.principal, each.host, each.operation, each.permission)],
            )
            for each in found
        ]
        return DescribeAclsResponse(error_code=self.error, resources=[] if self.error else rows)

    def _create(self, binding: AclBinding) -> AclCreationResult:
        code = self.refused.get(binding, self.error)
        if not code:
            self.acls[binding] = None
        return AclCreationResult(code, None)

    def _delete(self, wanted: AclFilter) -> DeleteAclsFilterResult:
        if self.error:
            return DeleteAclsFilterResult(self.error, None)
        rows = []
        for binding in [binding for binding in self.acls if wanted.matches(binding)]:
            code = self.refused.get(binding, ErrorCode.NONE)
            if not code:
                del self.acls[binding]
            rows.append(DeleteAclsMatchingAcl(code, None, *binding))
        return DeleteAclsFilterResult(matching_acls=rows)

    def _describe_configs(self, request: DescribeConfigsRequest) -> Message:
        [resource] = request.resources
        rows = [
            DescribeConfigsResourceResult(
                name=name, value=self.settings[name], is_sensitive=self.settings[name] is None
            )
            for name in resource.configuration_keys or ()
            if name in self.settings
        ]
        return DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_type=4, resource_name="0", configs=rows)]
        )


def _filter(request: Any) -> AclFilter:
    return AclFilter(
        AclResource(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        AclOperation(request.operation),
        AclPermission(request.permission_type),
    )


def _binding(creation: Any) -> AclBinding:
    return AclBinding(
        AclResource(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        AclOperation(creation.operation),
        AclPermission(creation.permission_type),
    )
