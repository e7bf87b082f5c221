"""Tokens that say which user asks: `UID.EXPIRES.MAC`, valid without a stored list.

Anyone with the key can issue them: the process that serves HTTP, and the accounting server, which gets the key from it
and issues tokens over its Unix socket, where the kernel identifies the user.

`metrics.MAC` is for scrapers. It belongs to no user, opens /metrics alone, and is valid as long as the key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import time
from contextlib import suppress

from ttmem.errors import BadInput

LIFETIME_S = 30 * 86_400
KEY_BYTES = 32
LONGEST = 128
METRICS = "metrics"


class Tokens:
    """Issues and checks tokens with one key, which is random unless given."""

    def __init__(self, key: bytes | None = None) -> None:
        self.key = key or secrets.token_bytes(KEY_BYTES)

    def issue(self, uid: int, now: float | None = None) -> str:
        expires = int((time.time() if now is None else now) + LIFETIME_S)
        return self._signed(f"{uid}.{expires}")

    def for_metrics(self) -> str:
        return self._signed(METRICS)

    def is_for_metrics(self, token: str) -> bool:
        return token.isascii() and hmac.compare_digest(self.for_metrics(), token)

    def uid(self, token: str, now: float | None = None) -> int | None:
        """The user of a token; None if it is invalid or has expired."""
        parts = token.split(".") if len(token) <= LONGEST and token.isascii() else []
        if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
            return None
        if not hmac.compare_digest(self._signed(f"{parts[0]}.{parts[1]}"), token):
            return None
        uid, expires = int(parts[0]), int(parts[1])
        return uid if expires > (time.time() if now is None else now) else None

    def _signed(self, text: str) -> str:
        return f"{text}.{hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()[:48]}"


def kept_key(path: str) -> bytes:
    """The key in a file, 64 hexadecimal digits. A file that does not exist is made, mode 0600."""
    try:
        if not os.path.lexists(path):
            _make_key(path)
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found, text = os.fstat(file), os.read(file, 4 * KEY_BYTES)
        finally:
            os.close(file)
    except OSError as problem:
        raise BadInput(f"the key {path} cannot be used: {problem.strerror}") from problem
    if found.st_mode & 0o077 or found.st_uid not in (0, os.geteuid()):
        raise BadInput(f"the key {path} must be yours and closed to others: chmod 600 {path}")
    with suppress(ValueError):
        key = bytes.fromhex(text.decode("ascii", "replace"))
        if stat.S_ISREG(found.st_mode) and len(key) == KEY_BYTES:
            return key
    raise BadInput(f"{path} is not a key, which is a file of {2 * KEY_BYTES} hexadecimal digits")


def _make_key(path: str) -> None:
    """Under another name first, so that nobody reads half a key; who comes second uses that of the first."""
    part = f"{path}.{os.getpid()}"
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{secrets.token_hex(KEY_BYTES)}\n")
    try:
        with suppress(FileExistsError):
            os.link(part, path)
    finally:
        os.unlink(part)
