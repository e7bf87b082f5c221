"""`ttmem leaks` as a table: what its columns and sentences count."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttmem.commands import main


def test_without_iterations_every_figure_is_of_parts_of_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "leak.ttmem")
    simulated = ["simulate", "leak", "--rate", "0", "--size", "small", "--steps", "120"]
    assert main([*simulated, "-o", file]) == 0
    capsys.readouterr()

    assert main(["leaks", file]) == 1

    text = " ".join(capsys.readouterr().out.split())
    assert "HELD AT LEAST BYTES/PART PARTS LEFT PID MEMORY" in text
    assert "steps between parts of the second half" in text
    assert "after every iteration" not in text
