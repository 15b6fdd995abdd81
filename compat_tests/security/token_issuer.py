"""An issuer of bearer tokens: its keys, the tokens that they sign, and an https server of its JSON Web Key Set."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "kafka"
LIFETIME_S: Final = 3600
_PATH: Final = "/keys"


class TokenIssuer:
    """`rotate` gives it another key: `published` has those of the key set, and the last one signs."""

    def __init__(self, certificates: Path) -> None:
        """`certificates` has those of `localhost` in `broker.pem`."""
        self.published: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.fetches = 0
        self.rotate("first")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                issuer.fetches += 1
                body = issuer.key_set() if self.path == _PATH else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002  the library's name
                """Nothing on the console."""

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates / "broker.pem")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="issuer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    @property
    def url(self) -> str:
        """For `sasl.oauthbearer.jwks.endpoint.url`."""
        return f"https://localhost:{self._server.server_port}{_PATH}"

    def rotate(self, key_id: str) -> None:
        """Sign with a new key from now on, and publish no other."""
        self.published = {key_id: ec.generate_private_key(ec.SECP256R1())}

    def key_set(self) -> bytes:
        keys: list[dict[str, Any]] = [
            {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "alg": "ES256", "use": "sig"}
            for name, key in self.published.items()
        ]
        return json.dumps({"keys": keys}).encode()

    def token(self, user: str, lifetime_s: float = LIFETIME_S, claims: Mapping[str, Any] | None = None) -> str:
        """A token; `claims` replace the usual ones."""
        now_s = int(time.time())
        usual = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + lifetime_s}
        key_id, key = list(self.published.items())[-1]
        return jwt.encode({**usual, **(claims or {})}, key, "ES256", {"kid": key_id})
