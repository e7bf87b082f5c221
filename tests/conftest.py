"""What every test may rely on, wherever it runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile(
    "any machine", deadline=None, max_examples=50
)  # a test suite times nothing
settings.register_profile("fast", deadline=None, max_examples=20)  # `make test` tries them all

HERE = Path(__file__).parent
TOOLS = HERE.parent / ".tools" / "bin"  # of `make tools`
os.environ["PATH"] = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
# With ttnn, a compiler, many processes, or thousands of examples: `make test-fast` leaves them out.
SLOW = (
    "benchmarks",
    "clean/test_exchanged_files.py",
    "clean/test_regions.py",
    "clean/test_undo.py",
    "client/test_healing.py",
    "client/test_interrupts.py",
    "client/test_processes.py",
    "client/test_real_server.py",
    "exporters",
    "feeds/test_documented_keys.py",
    "feeds/test_leak_checks.py",
    "feeds/test_past.py",
    "house/test_missing_tools.py",
    "house/test_structure.py",
    "hw/test_descriptor.py",
    "ledger/test_journal.py",
    "measuring/test_pytest_options.py",
    "model/test_ctrl_c.py",
    "model/test_demo.py",
    "model/test_simulate.py",
    "model/test_stories.py",
    "model/test_workloads.py",
    "probe",
    "recording/test_chunks.py",
    "recording/test_full_disk.py",
    "server",
    "ttnn",
    "views/monitor",
    "views/test_any_snapshot.py",
    "views/test_closed_regions.py",
    "views/test_output.py",
    "views/test_ps_command.py",
    "views/test_ps_stock.py",
    "views/test_ps_telemetry.py",
    "web/test_api_description.py",
    "web/test_demo_page.py",
    "web/test_http.py",
    "web/test_live_questions.py",
    "web/test_page_ends.py",
    "web/test_second_account.py",
    "web/test_siege.py",
    "web/test_recordings.py",
    "wire/test_corpus.py",
)


def pytest_configure(config: pytest.Config) -> None:
    # A worker of xdist may run these tests, but a pytest that a test starts is not a worker.
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        del os.environ[name]
    fast = config.getoption("markexpr") == "not slow"
    settings.load_profile("fast" if fast else "any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(HERE).as_posix().startswith(SLOW):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that is skipped because a program is not installed has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if "is not installed" in reason or "could not import" in reason:
            report.outcome = "failed"
            report.longrepr = f"{reason}; `make tools` installs what tests need"
    return report


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_works() -> None:
    """A shell that starts a job in the background lets it ignore SIGINT, and all its children too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _no_terminal() -> Iterator[None]:
    """Output is as wide as into a pipe, wherever the tests are started."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("COLUMNS", "LINES"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_regions_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test looks at the shared memory of this machine, unless it says so."""
    folder = tmp_path_factory.mktemp("shm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TTMEM_SHM", str(folder))
        yield folder


@pytest.fixture
def shm(tmp_path: Path) -> Path:
    folder = tmp_path / "shm"
    folder.mkdir()
    return folder


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root that all sources of the host look at."""
    root = tmp_path / "sys"
    root.mkdir()
    monkeypatch.setenv("TTMEM_SYSFS", str(root))
    return root
