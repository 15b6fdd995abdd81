"""The handlers: one module for each API, with a public function for each range of versions, registered by `@handles`.

A handler takes `(request, context)` and returns the response, `None` (the request needs no reply), a `Waiting`, or, for
work of more than a millisecond, steps that end in one of these. A handler that waits for something outside the process
is an `async def`; it runs as a task while its connection is parked.
"""
