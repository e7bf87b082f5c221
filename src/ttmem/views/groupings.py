"""By what live bytes can be grouped."""

from __future__ import annotations

BY = {"site": "site", "op": "name", "phase": "phase", "pid": "pid"}  # the key of a buffer's row
