"""The one error of TLS settings, stores and contexts."""


class TlsProblem(ValueError):
    """Settings or a store that TLS cannot be served with.

    The text is one sentence: the setting, the file, and what to do. It has no secret.
    """
