"""One module an API: its request and its response, with their structs, each declared once for all versions."""
