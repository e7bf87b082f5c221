"""A value in a document that remembers where it stands, so that every error can say it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from reprlib import repr as short_repr

from ttmem.errors import BadInput

U64 = 2**64 - 1
U32 = 2**32 - 1
CHIP_LIMIT = 2**31 - 1

_NUMBER = re.compile(r"[0-9]{1,20}|0x[0-9a-fA-F]{1,16}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Field:
    """`value` is text, a dict or a list; `path` leads to it, and is empty at the root."""

    value: object
    file: str
    path: str = ""

    def wrong(self, what: str) -> BadInput:
        return BadInput(": ".join(part for part in (self.file, self.path, what) if part))

    def mapping(self) -> dict[str, Field]:
        if not isinstance(self.value, dict):
            raise self.wrong(f"must be a mapping, not {short_repr(self.value)}")
        return {
            str(key): Field(value, self.file, f"{self.path}.{_in_path(key)}".removeprefix("."))
            for key, value in self.value.items()
        }

    def sequence(self) -> list[Field]:
        if not isinstance(self.value, list):
            raise self.wrong(f"must be a list, not {short_repr(self.value)}")
        return [Field(item, self.file, f"{self.path}[{i}]") for i, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.wrong(f"must be a word, not {short_repr(self.value)}")
        return self.value

    def number(self, limit: int = U64) -> int:
        if not isinstance(self.value, str) or not _NUMBER.fullmatch(self.value):
            raise self.wrong(f"must be a number from 0 to {limit}, not {short_repr(self.value)}")
        number = int(self.value, 16 if self.value.startswith("0x") else 10)
        if number > limit:
            raise self.wrong(f"must be at most {limit}, not {number}")
        return number

    def chip_id(self) -> int:
        return self.number(CHIP_LIMIT)

    def by_chip(self) -> dict[int, Field]:
        """A mapping whose keys are chips."""
        found: dict[int, Field] = {}
        for key, field in self.mapping().items():
            chip = Field(key, field.file, field.path).chip_id()
            if chip in found:
                raise self.wrong(f"chip {chip} occurs twice")
            found[chip] = field
        return found

    def get(self, key: str) -> Field | None:
        """None if the key is absent, or has nothing after its colon."""
        field = self.mapping().get(key)
        return None if field is None or field.value == "" else field

    def need(self, key: str) -> Field:
        field = self.get(key)
        if field is None:
            raise self.wrong(f"{key!r} is missing")
        return field


def _in_path(key: object) -> str:
    return key if isinstance(key, str) and key.isprintable() and len(key) < 40 else short_repr(key)
