"""Phases tag what is allocated inside them, whatever thread enters and leaves them, in any order."""

from __future__ import annotations

from collections.abc import Callable

import ttmem
from tests.probe.watched import Watched

Watch = Callable[..., Watched]
BEGIN = "import asyncio\nfrom ttmem import phase\nmesh = lib.mesh_open(1)\n"


def tags(watch: Watch, script: str) -> dict[int, str | None]:
    """The phase of each buffer that is alive at the end of the script, by its number."""
    process = watch(f"{BEGIN}{script}\nsay('done'); input()")
    process.wait_for("done")
    region = process.region()
    texts = region.new_strings()
    return {thing.id: texts.get(thing.phase) for thing in region.live()}


def test_a_phase_inside_a_phase_is_a_path(watch: Watch) -> None:
    found = tags(
        watch,
        "with phase('decode'):\n"
        "    with phase('attention'): buffer(mesh, 1, 0, 64)\n"
        "    buffer(mesh, 2, 0, 64)\n"
        "buffer(mesh, 3, 0, 64)",
    )

    assert found == {1: "decode/attention", 2: "decode", 3: None}


def test_an_exception_leaves_the_phase(watch: Watch) -> None:
    found = tags(
        watch,
        "try:\n    with phase('load'): 1 / 0\nexcept ZeroDivisionError: buffer(mesh, 1, 0, 64)",
    )

    assert found == {1: None}


def test_each_thread_has_its_own_phase(watch: Watch) -> None:
    found = tags(
        watch,
        "shared = phase('load')\n"
        "def work():\n"
        "    buffer(mesh, 1, 0, 64)\n"
        "    with shared: buffer(mesh, 2, 0, 64)\n"
        "with shared:\n"
        "    thread = threading.Thread(target=work); thread.start(); thread.join()\n"
        "    buffer(mesh, 3, 0, 64)\n"
        "buffer(mesh, 4, 0, 64)",
    )

    assert found == {1: None, 2: "load", 3: "load", 4: None}


def test_tasks_that_leave_in_another_order_leave_nothing_behind(watch: Watch) -> None:
    found = tags(
        watch,
        "async def task(name, number, turns):\n"
        "    with phase(name):\n"
        "        for _ in range(turns): await asyncio.sleep(0)\n"
        "        buffer(mesh, number, 0, 64)\n"
        "async def main(): await asyncio.gather(task('first', 1, 3), task('second', 2, 6))\n"
        "asyncio.run(main())\n"
        "buffer(mesh, 3, 0, 64)",
    )

    assert found == {1: "second", 2: "second", 3: None}  # one thread: what was entered last counts


def test_a_phase_decorates_functions_and_coroutines(watch: Watch) -> None:
    found = tags(
        watch,
        "@phase('forward')\n"
        "def forward(number): return number, buffer(mesh, number, 0, 64)\n"
        "@phase('serve')\n"
        "async def serve(number): return forward(number)\n"
        "assert forward(1)[0] == 1\n"
        "assert asyncio.run(serve(2))[0] == 2",
    )

    assert found == {1: "forward", 2: "serve/forward"}


def test_a_decorated_generator_is_inside_its_phase_while_it_runs(watch: Watch) -> None:
    found = tags(
        watch,
        "@phase('decode')\n"
        "def tokens():\n"
        "    for number in (1, 3): yield buffer(mesh, number, 0, 64)\n"
        "    buffer(mesh, 5, 0, 64)\n"
        "for number, _ in zip((2, 4, 6), tokens()): buffer(mesh, number, 0, 64)",
    )

    assert found == {1: "decode", 2: None, 3: "decode", 4: None, 5: "decode"}


def test_a_decorated_async_generator_is_inside_its_phase_while_it_runs(watch: Watch) -> None:
    found = tags(
        watch,
        "@phase('decode')\n"
        "async def tokens():\n"
        "    for number in (1, 3):\n"
        "        await asyncio.sleep(0)\n"
        "        yield buffer(mesh, number, 0, 64)\n"
        "async def main():\n"
        "    number = 2\n"
        "    async for _ in tokens():\n"
        "        buffer(mesh, number, 0, 64)\n"
        "        number += 2\n"
        "asyncio.run(main())",
    )

    assert found == {1: "decode", 2: None, 3: "decode", 4: None}


def test_phases_inside_a_decorated_generator_wait_with_it(watch: Watch) -> None:
    found = tags(
        watch,
        "@phase('decode')\n"
        "def tokens():\n"
        "    with phase('attention'):\n"
        "        yield\n"
        "        buffer(mesh, 2, 0, 64)\n"
        "    buffer(mesh, 3, 0, 64)\n"
        "    yield\n"
        "steps = tokens(); next(steps)\n"
        "with phase('load'):\n"
        "    buffer(mesh, 1, 0, 64)\n"
        "    next(steps)\n"
        "buffer(mesh, 4, 0, 64)",
    )

    assert found == {1: "load", 2: "load/decode/attention", 3: "load/decode", 4: None}


def test_each_step_of_a_decorated_generator_tags_the_thread_that_takes_it(watch: Watch) -> None:
    found = tags(
        watch,
        "@phase('decode')\n"
        "def tokens():\n"
        "    with phase('attention'):\n"
        "        for number in (1, 2): yield buffer(mesh, number, 0, 64)\n"
        "    yield buffer(mesh, 3, 0, 64)\n"
        "steps = tokens(); next(steps)\n"
        "def work(): next(steps); next(steps); buffer(mesh, 4, 0, 64)\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()\n"
        "buffer(mesh, 5, 0, 64)",
    )

    assert found == {1: "decode/attention", 2: "decode/attention", 3: "decode", 4: None, 5: None}


def test_a_decorated_generator_is_the_generator_that_it_was(watch: Watch) -> None:
    found = tags(
        watch,
        "import inspect\n"
        "@phase('decode')\n"
        "def steps(first):\n"
        "    try: second = yield first\n"
        "    except KeyError: second = yield 'caught'\n"
        "    try: yield second\n"
        "    finally: buffer(mesh, second, 0, 64)\n"
        "    return 'end'\n"
        "@phase('adecode')\n"
        "async def asteps(first):\n"
        "    try: second = yield first\n"
        "    except KeyError: second = yield 'caught'\n"
        "    try: yield second\n"
        "    finally: buffer(mesh, second, 0, 64)\n"
        "assert inspect.isgeneratorfunction(steps) and inspect.isasyncgenfunction(asteps)\n"
        "one = steps(7)\n"
        "assert [next(one), one.throw(KeyError()), one.send(1)] == [7, 'caught', 1]\n"
        "try: next(one)\n"
        "except StopIteration as end: assert end.value == 'end'\n"
        "one = steps(7); next(one); one.send(2); one.close()\n"
        "async def main():\n"
        "    one = asteps(8)\n"
        "    assert await one.asend(None) == 8\n"
        "    assert await one.athrow(KeyError()) == 'caught'\n"
        "    assert await one.asend(3) == 3\n"
        "    await one.aclose()\n"
        "    assert [step async for step in one] == []\n"
        "asyncio.run(main())",
    )

    assert found == {1: "decode", 2: "decode", 3: "adecode"}


def test_a_phase_that_another_thread_left_is_gone_with_the_next_one(watch: Watch) -> None:
    found = tags(
        watch,
        "def tokens():\n"
        "    with phase('decode'): yield\n"
        "steps = tokens(); next(steps)\n"
        "thread = threading.Thread(target=lambda: next(steps, None)); thread.start(); thread.join()\n"
        "with phase('load'): buffer(mesh, 1, 0, 64)\n"
        "buffer(mesh, 2, 0, 64)",
    )

    assert found == {1: "load", 2: None}


def test_phases_that_another_thread_left_do_not_pile_up(watch: Watch) -> None:
    found = tags(
        watch,
        "from ttmem.probe.phases import thread as own\n"
        "def steps():\n"
        "    with phase('step'): yield\n"
        "def leave(one):\n"
        "    thread = threading.Thread(target=lambda: next(one, None)); thread.start(); thread.join()\n"
        "before = steps(); next(before)\n"
        "for number in range(100):\n"
        "    after = steps(); next(after)\n"
        "    if number == 99: buffer(mesh, 3, 0, 64)\n"
        "    leave(before); before = after\n"
        "leave(before)\n"
        "assert len(own.stack) < 20\n"
        "with phase('load'): buffer(mesh, 1, 0, 64)\n"
        "buffer(mesh, 2, 0, 64)",
    )

    assert found == {1: "load", 2: None, 3: "step/step"}


def test_generators_that_end_in_another_order_leave_nothing_in_later_paths(watch: Watch) -> None:
    found = tags(
        watch,
        "def steps(name):\n"
        "    with phase(name): yield\n"
        "first, second = steps('first'), steps('second')\n"
        "next(first); next(second); next(first, None)\n"
        "buffer(mesh, 1, 0, 64)\n"
        "next(second, None)\n"
        "with phase('load'): buffer(mesh, 2, 0, 64)\n"
        "buffer(mesh, 3, 0, 64)",
    )

    assert found == {1: "first/second", 2: "load", 3: None}


def test_a_phase_that_was_entered_while_tracking_was_off_does_not_hide_the_one_around_it(
    watch: Watch,
) -> None:
    found = tags(
        watch,
        "with phase('decode'):\n"
        "    probe.ttmem_probe_track(0)\n"
        "    with phase('attention'): pass\n"
        "    probe.ttmem_probe_track(1)\n"
        "    buffer(mesh, 1, 0, 64)\n"
        "buffer(mesh, 2, 0, 64)",
    )

    assert found == {1: "decode", 2: None}


def test_a_child_of_a_fork_goes_back_to_its_own_phase(watch: Watch) -> None:
    process = watch(
        f"{BEGIN}"
        "with phase('outer'):\n"
        "    with phase('inner'):\n"
        "        child = os.fork()\n"
        "    if child == 0:\n"
        "        mesh = lib.mesh_open(1); buffer(mesh, 5, 0, 64)\n"
        "        say('child'); input()\n"
        "os.waitpid(child, 0)"
    )
    process.wait_for("child")

    (region,) = [found for found in process.regions() if found.pid != process.process.pid]
    texts = region.new_strings()
    assert [texts.get(thing.phase) for thing in region.live()] == ["outer"]


def test_strange_names_are_taken_as_they_are(watch: Watch) -> None:
    found = tags(watch, "with phase('a\\0b \\udcff é'): buffer(mesh, 1, 0, 64)")

    assert found == {1: "a b ? é"}


def test_without_the_probe_a_phase_does_nothing() -> None:
    @ttmem.phase("forward")
    def forward() -> int:
        with ttmem.phase("inside"), ttmem.phase("further inside"):
            return 7

    assert forward() == 7
