"""Where the library is, and the environment that brings it into a command and its children.

=================== ============================================================================
variable            meaning
=================== ============================================================================
``LD_PRELOAD``      the library, beside whatever was preloaded already
``ASAN_OPTIONS``    a program with AddressSanitizer may have the library before its runtime
``TTMEM``           ``0`` keeps a loaded library out of the way; anything else lets it work
``TTMEM_TRACKING``  ``0``: start switched off; `switch` turns it on
``TTMEM_SITES``     ``0``: no call sites
``TTMEM_STACKS``    ``1``: whole Python stacks instead of one line
``TTMEM_EVENTS``    events that the ring holds (default 131072)
``TTMEM_LIVE``      buffers, circular buffers, programs and kernels that may be alive (65536)
``TTMEM_REGION_DIR`` where regions are made (default /dev/shm)
``TTMEM_LOG``       a file for the library's few lines; default standard error
``TTMEM_LAUNCHER``  pid of the `ttmem run` that sums up at the end; it sets this itself
=================== ============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ttmem.errors import TtmemError

ASAN_VARIABLE, _ORDER = "ASAN_OPTIONS", "verify_asan_link_order"


class NoProbe(TtmemError):
    """The library was not built with this installation."""

    exit_code = 6


def library_path() -> Path:
    """The shared object; `NoProbe` if it is not there."""
    path = Path(__file__).with_name("_library.abi3.so")
    if not path.is_file():
        raise NoProbe(f"{path} is missing; install ttmem with a C++ compiler at hand")
    return path


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """`base` with the probe in it: for the command that is to be watched."""
    library = str(library_path())
    if " " in library or ":" in library:
        raise NoProbe(f"{library} cannot be preloaded: install ttmem in a path without ' ' and ':'")
    preloaded = base.get("LD_PRELOAD", "").replace(":", " ").split()
    if library not in preloaded:
        preloaded.insert(0, library)
    return {
        **base,
        "LD_PRELOAD": ":".join(preloaded),
        "TTMEM": base.get("TTMEM") or "1",
        ASAN_VARIABLE: _with_any_order(base.get(ASAN_VARIABLE, "")),
    }


def _with_any_order(options: str) -> str:
    """A sanitizer's runtime ends every program in which it is not the first library: ours replaces nothing of it."""
    if _ORDER in options:
        return options
    return f"{options}:{_ORDER}=0" if options else f"{_ORDER}=0"
