"""One module an API: its request and its response, with the structs inside them, each declared once for all versions."""
