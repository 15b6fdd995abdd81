"""`python -m gateway` is the command `headgate`."""

import sys

from gateway.app.cli import main

if __name__ == "__main__":
    sys.exit(main())
