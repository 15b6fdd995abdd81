"""SaslAuthenticate: one step of a SASL exchange (KIP-152).

v1 lifetime of the session (KIP-368)   v2 flexible
"""

from headgate.protocol.schema import Message, blob, int16, int64, nullable_string, v


class SaslAuthenticateRequest(Message, key=36, versions="0-2", flexible="2+"):
    """A token of the client. The repr hides it: a token may be a password."""

    auth_bytes: blob = v("0+")

    def __repr__(self) -> str:
        return f"SaslAuthenticateRequest(<{len(self.auth_bytes)} bytes>)"


class SaslAuthenticateResponse(Message, key=36, response=True, versions="0-2", flexible="2+"):
    """A token of the broker. After `session_lifetime_ms`, if not 0, the client must authenticate again."""

    error_code: int16 = v("0+")
    error_message: nullable_string = v("0+")
    auth_bytes: blob = v("0+")
    session_lifetime_ms: int64 = v("1+")
