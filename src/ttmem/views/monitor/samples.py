"""A span of history in columns of equal time. Where nothing was sampled there is None, not a line."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub

from ttmem.views.monitor.page import Series

SECOND = 1_000_000_000
PACE = 16  # samples
LONGEST_STEP = 3 * SECOND  # between samples that belong together, if they come every second


def first_needed(times: Sequence[int], end_ns: int, seconds: int) -> int:
    """From this sample on a series has all that its last `seconds` are drawn from: pace, and what held before."""
    oldest = bisect_left(times, end_ns - seconds * SECOND)
    return max(min(oldest - 1, bisect_right(times, end_ns) - PACE), 0)


@dataclass(frozen=True, slots=True)
class TimeColumns:
    """Which samples fall into which column.

    Columns begin at multiples of their length since 1970, so that a picture moves by whole columns
    and what is past keeps its shape.
    """

    times: Sequence[int]
    start_ns: int
    step_ns: int
    end_ns: int  # now, within the last column
    edges: Sequence[int]  # index of the first sample of each column, and one more

    @classmethod
    def of(cls, series: Series, end_ns: int, seconds: int, count: int) -> TimeColumns:
        """The last `seconds` before `end_ns` in `count` columns."""
        times = series.get("time_ns", ())
        step = max(seconds * SECOND // max(count, 1), 1)
        start = (end_ns // step + 1 - count) * step
        stop = bisect_right(times, end_ns)
        first = bisect_left(times, start, 0, stop)
        edges = [bisect_left(times, start + at * step, first, stop) for at in range(count)]
        return cls(times, start, step, end_ns, [*edges, stop])

    @property
    def count(self) -> int:
        """How many columns."""
        return len(self.edges) - 1

    def highest(self, values: Sequence[int]) -> list[int | None]:
        """The highest value of each column; between two samples the earlier one holds."""
        edges = self.edges
        if len(values) != len(self.times):
            return [None] * self.count
        out = [max(values[low:high]) if low < high else None for low, high in pairwise(edges)]
        if None in out and edges[-1]:
            longest = self._longest_step
            for at, value in enumerate(out):
                if value is None and self._between(edges[at], longest):
                    out[at] = values[edges[at] - 1]
        return out

    def column(self, time_ns: int) -> int | None:
        """The column of an instant, if it is in sight."""
        at = (time_ns - self.start_ns) // self.step_ns
        return at if 0 <= at < self.count and time_ns <= self.end_ns else None

    @property
    def _longest_step(self) -> int:
        """Samples further apart than this have a gap between them; the last few tell their pace."""
        stop = self.edges[-1]
        near = self.times[max(stop - PACE, 0) : stop]
        return max(LONGEST_STEP, 5 * min(map(sub, near[1:], near), default=0) // 2)

    def _between(self, after: int, longest: int) -> bool:
        """Is there nothing missing between the sample before `after` and the next one, or now?"""
        if after == 0:
            return False
        until = self.times[after] if after < self.edges[-1] else self.end_ns
        return until - self.times[after - 1] <= longest
