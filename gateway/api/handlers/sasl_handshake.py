"""SaslHandshake on a connection without a login, or after it: logins are the connection's own business."""

from headgate.gateway.api.authorization_rules import unrestricted
from headgate.gateway.api.context import HandlerContext
from headgate.gateway.api.handler_registration import handles
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@handles(SaslHandshakeRequest, versions="0-1", authorize=unrestricted)
def sasl_handshake(_request: SaslHandshakeRequest, _context: HandlerContext) -> SaslHandshakeResponse:
    """Refuse a login here, as Kafka does."""
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
