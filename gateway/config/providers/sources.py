"""Files and the environment of this process, for providers of configs."""

from __future__ import annotations

import os
import stat
from typing import Final

MAX_FILE_BYTES: Final = 1 << 20


class ProcessSources:
    """As `ProviderSources`."""

    def read_text(self, path: str) -> str:
        """The text of a regular file in UTF-8. Raises OSError, ValueError."""
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is not a file")
            data = file.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"it has more than {MAX_FILE_BYTES} bytes")
        try:
            return data.decode()
        except UnicodeDecodeError:  # its text would show a part of the file
            raise ValueError("it is not UTF-8") from None

    def variable(self, name: str) -> str | None:
        """A variable of the environment."""
        return os.environ.get(name)

    def matches(self, pattern: str, text: str) -> bool:
        """Whether a whole text matches a regular expression of RE2. Raises ValueError for a wrong one."""
        import re2  # here, because most brokers have no pattern

        options = re2.Options()
        options.log_errors = False
        try:
            return re2.fullmatch(pattern, text, options) is not None
        except re2.error as error:
            raise ValueError(str(error)) from None


def _open_at_once(path: str, flags: int) -> int:
    """Open a file; a named pipe does not wait for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
