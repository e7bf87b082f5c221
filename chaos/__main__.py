"""`python -m chaos`: rounds of faults until the time is over, at least one of each class; then a table.

CHAOS_SECONDS: how long (900). CHAOS_SEED: which faults (printed; else a new one). CHAOS_CLASSES: only these, by name.
CHAOS_ROUND: only this round, to see a failure again. CHAOS_ROUND_SECONDS: how long faults are injected in each round.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field

from chaos.faults import CLASSES, Round, Skipped
from chaos.stage import Failure, Stage, lost
from ttmem.errors import TtmemError


@dataclass
class Tally:
    """One line of the table."""

    rounds: int = 0
    tried: int = 0
    survived: int = 0
    events: int = 0  # lost, and counted by ttmem
    bytes: int = 0  # that were in files which somebody removed
    ends: list[float] = field(default_factory=list)  # seconds from SIGTERM to the end
    peak: float = 0.0  # MiB of the server
    skipped: str = ""


def main() -> int:
    """Exit code 1 if anything was lost uncounted, or a total was wrong."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # nothing stays behind
    seconds = float(os.environ.get("CHAOS_SECONDS", "900"))
    seed = os.environ.get("CHAOS_SEED") or str(random.SystemRandom().randrange(10**6))
    wanted = os.environ.get("CHAOS_CLASSES")
    names = [name for name in CLASSES if not wanted or name in wanted.split(",")]
    if not names:
        print(f"chaos: no such class; there are {', '.join(CLASSES)}", file=sys.stderr)
        return 2
    only = os.environ.get("CHAOS_ROUND")
    print(f"chaos: {seconds:g} s, CHAOS_SEED={seed}", flush=True)
    tallies = {name: Tally() for name in names}
    failures = []
    begun, number = time.monotonic(), 0 if only is None else int(only)
    with Stage(seed) as stage:
        while time.monotonic() - begun < seconds or number < len(names):
            name = names[number % len(names)]
            if not tallies[name].skipped:
                problem = _round(stage, tallies[name], name, seed, number, seconds)
                if problem:
                    failures.append(f"round {number} ({name}): {problem}")
                    print(f"chaos: {failures[-1]}", file=sys.stderr, flush=True)
            number += 1
            if only is not None or len(failures) >= 5:
                break
    print(table(tallies))
    for failure in failures:
        again = f"CHAOS_SEED={seed} CHAOS_ROUND={failure.split()[1]}"
        print(f"FAILED: {failure[:2000]}\n        again: {again} make chaos")
    return int(bool(failures))


def _round(stage: Stage, tally: Tally, name: str, seed: str, number: int, seconds: float) -> str:
    """One round; what went wrong, if something did."""
    chance = random.Random(f"{seed}/{number}")
    length = float(os.environ.get("CHAOS_ROUND_SECONDS") or max(1.5, min(10.0, seconds / 40)))
    stage.begin()
    tried = 0
    try:
        tried = CLASSES[name](Round(stage, chance, length))
        picture = stage.settle()
        stage.wait_until(stage.lost_events)
        tally.ends.append(stage.end_server())
        tally.survived += tried
        tally.events += max(0, lost(picture) - stage.lost_before)
        tally.bytes += stage.bytes_lost
        return ""
    except Skipped as reason:
        tally.skipped = str(reason)
        print(f"chaos: {name} skipped: {reason}", file=sys.stderr, flush=True)
        return ""
    except (Failure, TtmemError, OSError) as failure:
        words = stage.last_words()
        stage.abandon()
        return f"{str(failure)[:4000]}; the server's last words: {words}"
    finally:
        tally.rounds += 1
        tally.tried += tried
        tally.peak = max(tally.peak, stage.peak)


def table(tallies: dict[str, Tally]) -> str:
    """Fault class x tried x survived x lost."""
    lines = [
        f"{'fault class':<16} {'rounds':>6} {'tried':>7} {'survived':>8} {'lost events':>11}"
        f" {'lost bytes':>12} {'SIGTERM':>8} {'server MiB':>10}"
    ]
    for name, tally in tallies.items():
        if tally.skipped:
            lines.append(f"{name:<16} skipped: {tally.skipped}")
            continue
        end = f"{max(tally.ends):.2f} s" if tally.ends else "-"
        lines.append(
            f"{name:<16} {tally.rounds:>6} {tally.tried:>7,} {tally.survived:>8,} {tally.events:>11,}"
            f" {tally.bytes:>12,} {end:>8} {tally.peak:>10.0f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
