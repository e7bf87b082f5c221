"""The report's table of programs."""

from __future__ import annotations

from ttmem.web.programs import ReportedProgram


def test_a_program_that_was_created_and_never_filled_does_not_count() -> None:
    assert not ReportedProgram("ttnn.matmul", "model.py:3").is_used
    assert ReportedProgram("ttnn.matmul", kernels=1).is_used
    assert ReportedProgram("ttnn.matmul", dispatches=1).is_used
