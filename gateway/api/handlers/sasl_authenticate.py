"""SaslAuthenticate on a connection without a login, or after it: logins are the connection's own business."""

from headgate.gateway.api.authorization_rules import unrestricted
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


@handles(SaslAuthenticateRequest, versions="0-2", authorize=unrestricted)
def sasl_authenticate(_request: SaslAuthenticateRequest, _context: HandlerContext) -> SaslAuthenticateResponse:
    """Refuse a login here, as Kafka does."""
    message = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, message)
