"""The handlers: one module for each API, with a public function for each range of versions, registered by `@handles`.

A handler takes `(request, context)` and returns the response, `None` (the request needs no reply), or a task that
returns the response later (`gateway.runtime.tasks`): after a wait, or after work of more than a millisecond.
"""
