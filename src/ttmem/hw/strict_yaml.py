"""YAML from untrusted files. Imported only when a file is read, because importing yaml is slow.

Every scalar stays text: `yaml.safe_load` follows YAML 1.1 and would read the PCI address 0000:01:00.0 as the base-60
number 60.0. Tags are ignored.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from ttmem.errors import BadInput

# A descriptor nests 5 deep, and one of 32 chips has about 3,000 nodes.
MAX_DEPTH = 32
MAX_NODES = 50_000


class _Loader(yaml.BaseLoader):
    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        # Aliases can expand a few lines to gigabytes, and no descriptor uses them.
        if self.check_event(yaml.AliasEvent):
            raise self._refused("YAML aliases are not accepted")
        self._nodes += 1
        self._depth += 1
        if self._nodes > MAX_NODES or self._depth > MAX_DEPTH:
            raise self._refused("too many values, or too deeply nested, for a descriptor")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            raise yaml.MarkedYAMLError(
                problem="a key occurs twice in this mapping", problem_mark=node.start_mark
            )
        return mapping

    def _refused(self, problem: str) -> yaml.MarkedYAMLError:
        mark = self.current_event.start_mark
        return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def load(text: str, name: str) -> object:
    """Returns mappings, sequences and text. `name` identifies the file in error messages."""
    try:
        return _Loader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise BadInput(f"{name}: {line}{error.problem or error.context}") from None
    # ValueError and OverflowError: PyYAML passes escapes such as "\UFFFFFFFF" to chr() unchecked.
    except (yaml.YAMLError, ValueError, OverflowError):
        raise BadInput(f"{name}: not a YAML file") from None
