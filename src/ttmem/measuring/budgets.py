"""Limits for a test, and baselines to compare with."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ttmem.errors import BadInput
from ttmem.measuring.measured import Peak
from ttmem.sizes import human, parse_size
from ttmem.version import __version__

LEAKS = "leaks"
PEAKS = ("dram", "l1", "l1_small", "trace", "cb", "l1_used", "l1_per_core")
SCHEMA = "ttmem.baseline/1"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes by name: peaks of one device, and leaks."""

    most: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, object]) -> Limits:
        """As in `@pytest.mark.ttmem(l1="20 MiB", leaks=0)`; BadInput says what is wrong."""
        most = {}
        for name, value in given.items():
            if name not in (*PEAKS, LEAKS):
                raise BadInput(
                    f"there is no limit {name!r}; known are {', '.join((*PEAKS, LEAKS))}"
                )
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise BadInput(
                    f"{name}={value!r} is no size; write bytes, or a text such as '20 MiB'"
                )
            size = parse_size(value) if isinstance(value, str) else value
            if size < 0:
                raise BadInput(f"{name}={value!r}: a limit cannot be negative")
            most[name] = size
        return cls(most)

    @classmethod
    def parse(cls, text: str) -> Limits:
        """'leaks=0,l1=20MiB'."""
        pairs = [part.partition("=") for part in text.replace(";", ",").split(",") if part.strip()]
        wrong = [name for name, sign, value in pairs if not sign or not value.strip()]
        if wrong or not pairs:
            raise BadInput(f"{text!r} has no limits; write them as leaks=0,l1=20MiB")
        return cls.of({name.strip(): value.strip() for name, _, value in pairs})

    def with_own(self, own: Limits) -> Limits:
        """`own` counts where both have a limit."""
        return Limits({**self.most, **own.most})

    def exceeded(self, peak: Peak, leaked: int | None) -> Iterator[str]:
        """A sentence for each limit that was passed, or could not be checked."""
        for name, most in self.most.items():
            value = leaked if name == LEAKS else getattr(peak, name)
            if value is None:
                yield f"{name}: the limit of {human(most)} cannot be checked, because the value is N/A"
            elif value > most:
                found, allowed = _sizes(value, most)
                what = f"{found} were not freed" if name == LEAKS else f"the peak was {found}"
                yield f"{name}: {what}, {allowed} are allowed"


def _sizes(one: int, other: int) -> tuple[str, str]:
    """Two sizes that look alike are told to the byte."""
    if human(one) != human(other):
        return human(one), human(other)
    return f"{one:,} B", f"{other:,} B"


def parse_percent(text: str) -> float:
    """'2%' -> 0.02."""
    try:
        percent = float(text.strip().removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent < 1000:
        raise BadInput(f"{text!r} is no percentage; write it as 2%")
    return percent / 100


@dataclass(slots=True)
class Baseline:
    """Peaks of an earlier run, by test."""

    file: str
    ttnn: str | None = None
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: str, *, may_be_missing: bool = False) -> Baseline:
        """BadInput says why it cannot be used."""
        advice = "--ttmem-update-baseline writes it"
        try:
            with open(file, encoding="utf-8") as opened:
                document = json.load(opened)
        except FileNotFoundError:
            if may_be_missing:
                return cls(file)
            raise BadInput(f"there is no baseline {file}; {advice}") from None
        except OSError as problem:
            raise BadInput(f"the baseline {file} cannot be read: {problem.strerror}") from None
        except ValueError as problem:
            raise BadInput(f"{file} is no baseline ({problem}); {advice} anew") from None
        schema = document.get("schema") if isinstance(document, dict) else None
        if schema != SCHEMA or not isinstance(document.get("tests"), dict):
            told = f"its schema is {schema!r}, this ttmem reads {SCHEMA!r}"
            raise BadInput(
                f"{file} is no baseline that ttmem {__version__} can read: {told}; {advice} anew"
            )
        return cls(file, document.get("ttnn"), document["tests"])

    def write(self, ttnn: str | None) -> None:
        """All at once, in the order of names, so that a repository shows what has changed."""
        tests = dict(sorted(self.tests.items()))
        document = {"schema": SCHEMA, "ttmem": __version__, "ttnn": ttnn, "tests": tests}
        folder = os.path.dirname(os.path.abspath(self.file))
        os.makedirs(folder, exist_ok=True)
        new = f"{self.file}.{os.getpid()}.new"
        with open(new, "w", encoding="utf-8") as opened:
            json.dump(document, opened, indent=1)
            opened.write("\n")
        os.replace(new, self.file)

    def increased(self, test: str, peak: Peak, board: str, share: float) -> Iterator[str]:
        """A sentence for each peak that is higher. BadInput if there is nothing to compare with."""
        known = self.tests.get(test)
        if known is None:
            raise BadInput(
                f"it is not in the baseline {self.file}; --ttmem-update-baseline adds it"
            )
        if known.get("board") != board:
            raise BadInput(
                f"its baseline was measured on {known.get('board')}, and this is {board}: not comparable."
                " Use a baseline file for each board, or --ttmem-update-baseline"
            )
        for name in PEAKS:
            before, now = known.get(name), getattr(peak, name)
            if type(before) is int and now is not None and now > before * (1 + share):
                more = f" ({(now - before) / before:+.1%})" if before else ""
                found, earlier = _sizes(now, before)
                yield f"{name}: the peak was {found}{more}, {earlier} in the baseline"
