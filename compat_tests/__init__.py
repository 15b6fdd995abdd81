"""Stock clients against the installed command, over real sockets. Imports none of ours: see README.md here."""
