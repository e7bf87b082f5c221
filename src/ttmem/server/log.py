"""The server's log: sentences on stderr, each kind of trouble counted and not repeated."""

from __future__ import annotations

import logging
from collections import OrderedDict

from ttmem.clock import log_line
from ttmem.server.output import Output
from ttmem.text import printable

MAX_KEYS = 10_000
LIMIT = 4 << 20  # bytes of lines that wait for who reads them
LONGEST = 1000  # letters of a sentence


class LogHandler(logging.Handler):
    """Hands lines to a thread, because who reads them may be stuck."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self._output = output

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        self._output.write(f"{self.format(record)}\n".encode("utf-8", "replace"))
        self._output.flush()


class Log:
    """Says a thing the 1st, 10th, 100th, ... time; between, it only counts."""

    def __init__(self) -> None:
        self._logger = logging.getLogger("ttmem.server")
        self._times: OrderedDict[str, int] = OrderedDict()

    def info(self, sentence: str) -> None:
        """Something ordinary."""
        log_line(self._logger.info, "%s", printable(sentence[:LONGEST]))

    def trouble(self, key: str, sentence: str) -> None:
        """Something wrong; `key` tells repetitions."""
        times = self._times.get(key, 0) + 1
        self._times[key] = times
        self._times.move_to_end(key)
        if len(self._times) > MAX_KEYS:
            self._times.popitem(last=False)
        if times == 1:
            log_line(self._logger.warning, "%s", printable(sentence[:LONGEST]))
        elif str(times).strip("0") == "1":
            log_line(self._logger.warning, "%s (%d times)", printable(sentence[:LONGEST]), times)
