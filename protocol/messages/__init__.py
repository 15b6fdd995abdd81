"""One module for each API: its request, its response and their structs, each declared once for all versions."""
