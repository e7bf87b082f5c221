"""Programs of every kind run under the probe as they run without it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.probe.watched import DISPATCHING, WRAPPER, Launcher, Watched, build_runtime
from ttmem.probe import environment
from ttmem.probe.layout import LiveType

Watch = Callable[..., Watched]
HOST = Path(__file__).parent / "hosts" / "plain.c"


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("host") / "plain"
    subprocess.run(["gcc", "-O1", "-pthread", "-o", program, HOST, "-ldl"], check=True)
    return program


def ran(host: Path, runtime: Path, folder: Path, *arguments: str | Path) -> list[str]:
    """What the program said, if it came to its end."""
    done = subprocess.run(
        [*WRAPPER, host, runtime, *arguments],
        env=environment({**os.environ, "TTMEM_REGION_DIR": str(folder)}),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_pipe_that_nobody_reads_ends_no_program(
    host: Path, half_runtime: Path, tmp_path: Path
) -> None:
    assert ran(host, half_runtime, tmp_path, "unread pipe") == ["alive"]


def test_a_thread_that_is_cancelled_opens_its_device_in_peace(
    host: Path, runtime: Path, tmp_path: Path
) -> None:
    assert ran(host, runtime, tmp_path, "cancelled") == ["alive"]


def test_a_program_that_uses_every_thread_key_keeps_its_own(
    host: Path, runtime: Path, tmp_path: Path
) -> None:
    assert ran(host, runtime, tmp_path, "no keys") == ["kept", "alive"]


def test_a_thread_that_loads_libraries_is_not_in_the_way(
    host: Path, runtime: Path, tmp_path: Path
) -> None:
    plugin = tmp_path / "plugin.so"
    subprocess.run(
        ["gcc", "-shared", "-o", plugin, "-x", "c", "-"], input=b"int unused;", check=True
    )

    for _ in range(5):
        assert ran(host, runtime, tmp_path, "loading", plugin) == ["alive"]


def test_threads_at_work_outlive_the_interpreter(watch: Watch) -> None:
    process = watch(
        "import time, types\n"
        "libc = ctypes.CDLL(None); libc.malloc.restype = address\n"
        "libc.memset.argtypes = [address, ctypes.c_int, ctypes.c_size_t]\n"
        "class Late:  # what was freed is used again, while the interpreter ends\n"
        "    def __del__(self, libc=libc, sleep=time.sleep):\n"
        "        for size in list(range(200, 600, 8)) * 20:\n"
        "            libc.memset(libc.malloc(size), 0x41, size)\n"
        "        sleep(0.1)\n"
        "sys.modules['late'] = types.ModuleType('late'); sys.modules['late'].kept = Late()\n"
        "mesh = lib.mesh_open(1)\n"
        "for i in range(2):\n"
        "    work = (mesh, 1 + i * 10**9, 10**9)\n"
        "    threading.Thread(target=lib.churn, args=work, daemon=True).start()\n"
        "time.sleep(0.3)"
    )

    process.end()


def test_a_runtime_of_another_name_is_found(watch: Watch, tmp_path: Path) -> None:
    library = build_runtime(tmp_path).rename(tmp_path / "metal_runtime.so")
    process = watch(
        DISPATCHING + "mesh = lib.mesh_open(1); kept = buffer(mesh, 1, 0, 4096)\n"
        "assert buffer(mesh, 2, 0, 1 << 50) is None  # it is still the runtime that decides\n"
        "lib.workload_enqueue(lib.workload_make(mesh, lib.program_make(6, mesh, 64, 1), None))\n"
        "say('done')",
        library=library,
    )
    process.wait_for("done")

    (activity,) = process.region().activity()
    assert activity.dispatches == 1


def test_a_forked_childs_own_fault_is_its_own(watch: Watch) -> None:
    process = watch(
        "import mmap, tempfile\n"
        "mesh = lib.mesh_open(1); kept = buffer(mesh, 1, 0, 64)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    file = tempfile.TemporaryFile(); file.truncate(1 << 20)\n"
        "    views = [mmap.mmap(file.fileno(), 1 << 20) for _ in range(40)]\n"
        "    file.truncate(0)\n"
        "    for view in views: view[0]\n"
        "    os._exit(0)\n"
        "say(os.WTERMSIG(os.waitpid(child, 0)[1]))"
    )

    process.wait_for(str(int(signal.SIGBUS)))


def test_a_bus_error_that_is_sent_ends_the_program(watch: Watch) -> None:
    process = watch("mesh = lib.mesh_open(1); kept = buffer(mesh, 1, 0, 64); say('open'); input()")
    process.wait_for("open")

    process.process.send_signal(signal.SIGBUS)

    assert process.process.wait(PATIENCE_S) == -signal.SIGBUS


def test_a_forked_child_that_uses_no_runtime_has_no_region(watch: Watch) -> None:
    process = watch(
        "def work():\n"
        "    lib.mesh_open(1)\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        for _ in range(1000): pass\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join(); say('done')"
    )
    process.wait_for("done")

    assert [region.pid for region in process.regions()] == [process.process.pid]


def test_lines_of_files_and_functions_in_any_script_are_told(watch: Watch) -> None:
    names = ["/home/jürgen/größe.py", "/home/太郎/model.py", "/home/emoji😀/m.py"]
    source = "def größe(): lib.buffer_allocate(lib.buffer_make(mesh, number, 0, 64, 512))\ngröße()"
    process = watch(
        "mesh = lib.mesh_open(1)\n"
        f"for number, name in enumerate({names!r}):\n"
        f"    exec(compile({source!r}, name, 'exec'), globals())\n"
        "say('made')"
    )
    process.wait_for("made")
    region = process.region()
    texts = region.new_strings()

    made = [entry for entry in region.live() if entry.type is LiveType.BUFFER]
    assert {texts[entry.site] for entry in made} == {f"{name}:1 größe" for name in names}


SANITIZED = """
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
int main(int, char** arguments) {
    void* runtime = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
    auto open = reinterpret_cast<void* (*)(int)>(dlsym(runtime, "mesh_open"));
    using Make = void* (*)(void*, unsigned long, int, unsigned long, unsigned long);
    auto make = reinterpret_cast<Make>(dlsym(runtime, "buffer_make"));
    auto allocate = reinterpret_cast<int (*)(void*)>(dlsym(runtime, "buffer_allocate"));
    const int refused = allocate(make(open(1), 1, 0, 4000, 512));
    std::puts(refused ? "refused" : "allocated");
    std::fflush(stdout);
    std::_Exit(7);
}
"""


@pytest.fixture(scope="session")
def sanitizer() -> str:
    found = subprocess.run(
        ["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.isabs(found):
        pytest.skip("the compiler has no AddressSanitizer")
    return found


@pytest.mark.parametrize("how", ["built", "preloaded"])
def test_a_program_with_a_sanitizer_runs_and_is_watched(
    sanitizer: str, how: str, launcher: Launcher, runtime: Path, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    (tmp_path / "program.cpp").write_text(SANITIZED)
    flags = ["-fsanitize=address"] if how == "built" else []
    subprocess.run(["g++", *flags, "-o", program, tmp_path / "program.cpp", "-ldl"], check=True)
    preloaded = sanitizer if how == "preloaded" else ""

    done = launcher.run(str(program), str(runtime), LD_PRELOAD=preloaded)

    assert (done.returncode, done.stdout) == (7, "allocated\n")
    assert "4.0 KiB" in done.stderr
    assert "link_order" not in done.stderr
