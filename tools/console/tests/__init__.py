"""Tests of the console: most over ASGI, without a socket."""
