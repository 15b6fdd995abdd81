"""CreateAcls: create access rules for resources (KIP-140).

v1 patterns of resource names (KIP-290)   v2 flexible   v3 users as resources (KIP-373)
"""

from typing import Any

from headgate.gateway.api.authorization import AclOperation
from headgate.gateway.api.authorization_rules import cluster
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.gateway.api.handlers.each import settled
from headgate.gateway.api.refusals import or_close, refusal, require_acls
from headgate.gateway.runtime.tasks import Outcome, Task, at_once_if_few, value_of
from headgate.gateway.security.acls.acl_requests import binding_of
from headgate.protocol.acls import AclBinding
from headgate.protocol.errors import KafkaError
from headgate.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

_CHECKED_A_STEP = 100


@handles(CreateAclsRequest, versions="0-3", authorize=cluster(AclOperation.ALTER))
def create_acls(request: CreateAclsRequest, context: HandlerContext) -> Outcome[CreateAclsResponse]:
    """Create each rule that is not there yet, all of them in one change."""
    require_acls(context, "No Authorizer is configured.")
    return at_once_if_few(_create_acls(request, context), len(request.creations))


def _create_acls(request: CreateAclsRequest, context: HandlerContext) -> Task[Any]:
    broker, bindings, rows = context.broker, list[AclBinding](), list[AclCreationResult]()
    for number, creation in enumerate(request.creations, 1):
        binding = or_close(binding_of, creation)
        try:
            broker.metadata.check_new_acl(binding)
            bindings.append(binding)
            rows.append(AclCreationResult())
        except KafkaError as error:
            rows.append(AclCreationResult(*refusal(broker, error)))
        if not number % _CHECKED_A_STEP:
            yield None
    change = broker.metadata.create_acls(bindings)
    return (yield from value_of(settled(context, change, lambda: CreateAclsResponse(results=rows))))
