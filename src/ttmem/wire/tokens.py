"""Tokens that say which user asks: `UID.EXPIRES.MAC`, checked without a list of them.

Whoever knows the key can issue them: the process that serves HTTP, and the accounting server to which it tells the key,
which issues them over its Unix socket, where the kernel says who asks.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

LIFETIME_S = 30 * 86_400
KEY_BYTES = 32
LONGEST = 128


class Tokens:
    """Issues and checks them with one key, which is random unless given."""

    def __init__(self, key: bytes | None = None) -> None:
        self.key = key or secrets.token_bytes(KEY_BYTES)

    def issue(self, uid: int, now: float | None = None) -> str:
        expires = int((time.time() if now is None else now) + LIFETIME_S)
        return f"{uid}.{expires}.{self._mac(uid, expires)}"

    def uid(self, token: str, now: float | None = None) -> int | None:
        """Whose token it is; None if it is not one of ours, or has expired."""
        parts = token.split(".") if len(token) <= LONGEST and token.isascii() else []
        if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()):
            return None
        uid, expires = int(parts[0]), int(parts[1])
        if not hmac.compare_digest(self._mac(uid, expires), parts[2]):
            return None
        return uid if expires > (time.time() if now is None else now) else None

    def _mac(self, uid: int, expires: int) -> str:
        return hmac.new(self.key, f"{uid}.{expires}".encode(), hashlib.sha256).hexdigest()[:48]
