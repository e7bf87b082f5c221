"""Rules of the C++ code that no compiler checks."""

from __future__ import annotations

import runpy
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "src" / "native"


def test_memory_orders_are_named_in_one_file_which_says_why_each_is_enough() -> None:
    users = {path.name for path in NATIVE.rglob("*.[ch]pp") if "memory_order_" in path.read_text()}

    assert users == {"memory_order.hpp"}


def test_the_tables_that_python_and_cpp_share_are_up_to_date() -> None:
    made = runpy.run_path(str(NATIVE / "make_tables.py"))

    assert made["FILE"].read_text() == made["tables"](), "run `make tables`"
