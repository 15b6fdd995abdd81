"""SaslHandshake: choose a SASL mechanism (KIP-43).

No version is flexible: clients up to 2.4 would negotiate it wrongly.

v0 raw tokens follow, without Kafka's headers   v1 SaslAuthenticate follows (KIP-152)
"""

from headgate.protocol.schema import Message, array, int16, string, v


class SaslHandshakeRequest(Message, key=17, versions="0-1", flexible="none"):
    """The mechanism of the client's choice."""

    mechanism: string = v("0+")


class SaslHandshakeResponse(Message, key=17, response=True, versions="0-1", flexible="none"):
    """The mechanisms of the broker."""

    error_code: int16 = v("0+")
    mechanisms: array[string] = v("0+")
