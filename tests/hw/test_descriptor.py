"""Cluster descriptors are untrusted input: each is read, or rejected with a message that says why."""

from __future__ import annotations

import contextlib
import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patience import wait_until

from ttmem.errors import BadInput
from ttmem.hw import board, device_spec
from ttmem.hw.descriptor import parse_cluster, read_cluster

DESCRIPTORS = Path(__file__).parents[1] / "data" / "cluster_descriptors"
TEXTS = [path.read_bytes() for path in sorted(DESCRIPTORS.glob("*.yaml"))]
DOCUMENTS = [yaml.load(text, yaml.BaseLoader) for text in TEXTS]


def is_read_or_refused_in_words(data: bytes) -> bool:
    try:
        cluster = parse_cluster(data, "hostile.yaml")
    except BadInput as refused:
        return str(refused).startswith("hostile.yaml: ")
    for chip in cluster.chips:
        with contextlib.suppress(BadInput):
            device_spec(chip.board)
    return True


def two_chips(**changes: str) -> bytes:
    sections = {
        "arch": "{0: wormhole_b0, 1: wormhole_b0}",
        "chips_with_mmio": "[0: 0]",
        "harvesting": "{0: {harvest_mask: 3}, 1: {harvest_mask: 3}}",
        "boards": "[[{board_id: 7}, {board_type: n300}, {chips: [0, 1]}]]",
    } | changes
    return "\n".join(f"{key}: {value}" for key, value in sections.items() if value).encode()


def test_the_document_that_these_tests_spoil_is_good() -> None:
    assert len(parse_cluster(two_chips(), "good.yaml").chips) == 2


@pytest.mark.parametrize("section", ["arch", "chips_with_mmio", "harvesting", "boards"])
def test_a_missing_section_is_named(section: str) -> None:
    with pytest.raises(BadInput, match=f"bad.yaml: '{section}' is missing"):
        parse_cluster(two_chips(**{section: ""}), "bad.yaml")


@pytest.mark.parametrize(
    ("section", "content", "message"),
    [
        ("arch", "[wormhole_b0]", r"arch: must be a mapping, not \['wormhole_b0'\]"),
        ("arch", "{}", "'arch' names no chip"),
        ("arch", "{0: quasar}", r"arch\.0: unknown architecture 'quasar'"),
        ("arch", "{zero: blackhole}", r"arch\.zero: must be a number .* not 'zero'"),
        ("arch", "{-1: blackhole}", r"arch\.-1: must be a number from 0 to 2147483647"),
        ("arch", "{0: blackhole, 00: blackhole}", "arch: chip 0 occurs twice"),
        ("arch", "{0: blackhole, 0: blackhole}", "line 1: a key occurs twice"),
        ("arch", "{? [0] : blackhole}", "line 1: "),
        ("chips_with_mmio", "[0: 0, 0: 1]", r"chips_with_mmio\[1\]: chip 0 occurs twice"),
        ("chips_with_mmio", "[9]", r"chips_with_mmio\[0\]: chip 9 does not belong here"),
        ("harvesting", "{0: {harvest_mask: 3}}", "harvesting: chip 1 is missing"),
        ("harvesting", "{0: {}, 1: {}}", r"harvesting\.0: 'harvest_mask' is missing"),
        ("harvesting", "{0: {harvest_mask: -1}}", r"harvesting\.0\.harvest_mask: must be a num"),
        ("harvesting", "{0: {harvest_mask: 4294967296}}", "at most 4294967295"),
        ("boards", "[[{board_id: 7}, {chips: [0]}]]", r"boards\[0\]: 'board_type' is missing"),
        ("boards", "[board_id: 7]", r"boards\[0\]: must be a list"),
        ("boards", "[[board_id: 7, board_type: n300, chips: [0, 0]]]", "chip 0 is on two boards"),
        ("boards", "[[board_id: 7, board_type: p150, chips: [0]]]", "wormhole, but p150 is black"),
        ("chip_unique_ids", "{0: 5, 1: 5}", "chips 0 and 1 have the same id 5"),
        ("chip_unique_ids", "{0: 18446744073709551616}", "at most 18446744073709551615"),
        ("chip_pci_bdfs", "{0: 01.00.0}", r"chip_pci_bdfs\.0: must be a PCI address"),
        ("chip_pci_bdfs", "{1: '0000:01:00.0'}", "chip 1 does not belong here; known chips: 0"),
        ("chip_to_bus_id", "{0: 12}", "must be hexadecimal such as 0x01, not '12'"),
    ],
)
def test_what_is_wrong_is_said_with_the_file_and_the_place(
    section: str, content: str, message: str
) -> None:
    with pytest.raises(BadInput, match=rf"bad\.yaml: .*{message}"):
        parse_cluster(two_chips(**{section: content}), "bad.yaml")


def test_more_harvesting_than_a_product_has_is_read_but_gives_no_capacities() -> None:
    three_rows = "{0: {harvest_mask: 7}, 1: {harvest_mask: 3}}"
    cluster = parse_cluster(two_chips(harvesting=three_rows), "odd.yaml")
    with pytest.raises(BadInput, match="3 harvested Tensix rows"):
        device_spec(cluster.chips[0].board)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "must be a mapping", id="empty"),
        pytest.param(b"\xff\xfe\x00", "not text in UTF-8", id="binary"),
        pytest.param(b"a: [", "line 1: ", id="unfinished"),
        pytest.param(b"a: 1\n---\nb: 2", "line 2: ", id="two documents"),
        pytest.param(b"a: &x [1]\nb: *x", "line 2: YAML aliases are not accepted", id="alias"),
        pytest.param(b"[" * 100_000, "too deeply nested", id="deep"),
        pytest.param(b"- 1\n" * 60_000, "too many values", id="wide"),
        pytest.param(b'"\\UFFFFFFFF"', "not a YAML file", id="impossible character"),
        pytest.param(b"!!python/object/apply:os.abort []", "must be a mapping", id="code"),
        pytest.param(b"arch: " + b"9" * 10_000, "arch: must be a mapping, not '9", id="long"),
    ],
)
def test_what_is_no_descriptor_at_all_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse_cluster(data, "bad.yaml")


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    huge.touch()
    os.truncate(huge, 2**40)
    with pytest.raises(BadInput, match=r"huge\.yaml: larger than 8388608 bytes"):
        read_cluster(huge)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.yaml: cannot be read: No such file"):
        read_cluster(tmp_path / "none.yaml")


def test_a_pipe_that_would_never_end_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match="pipe: not a file"):
        read_cluster(tmp_path / "pipe")


WORDS = st.text(alphabet="a0x-:.,?{}[]&*#!|>%@`'\"\\ \n\t\0\x85\u2028\u00e9\U0001f600", max_size=8)
JUNK = st.one_of(
    st.sampled_from(["", "-1", "0", "1", "99", "0x", "1e9", "~", "n150", str(2**64), "9" * 5000]),
    WORDS,
    st.just([]),
    st.just({}),
    st.lists(st.integers(-1, 3).map(str), max_size=3),
    st.dictionaries(st.integers(-1, 3).map(str), WORDS, max_size=3),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    here = [(value, key) for key in keys]
    inside = [child for _, key in here if isinstance(child := value[key], (dict, list))]
    return here + [place for child in inside for place in places(child)]


@settings(deadline=None)
@given(data=st.data())
def test_a_spoilt_document_is_read_or_refused_in_words(data: st.DataObject) -> None:
    document = copy.deepcopy(data.draw(st.sampled_from(DOCUMENTS)))
    for _ in range(data.draw(st.integers(1, 3))):
        found = places(document)
        if not found:
            break
        container, key = data.draw(st.sampled_from(found))
        change = data.draw(st.sampled_from(["delete", "replace", "rename", "repeat"]))
        if change == "delete":
            del container[key]
        elif change == "replace":
            container[key] = copy.deepcopy(data.draw(JUNK))
        elif isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        else:
            container[data.draw(WORDS)] = copy.deepcopy(container[key])
            if change == "rename":
                container.pop(key)
    assert is_read_or_refused_in_words(yaml.safe_dump(document).encode())


@settings(deadline=None)
@given(data=st.data())
def test_spoilt_text_is_read_or_refused_in_words(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from(TEXTS)))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 20)))
        signs = st.sampled_from([*b"[]{}:,-?&*!|>'\"%@`#\\ \n\t\x00\xff0x"])
        text[start:end] = data.draw(st.one_of(st.binary(max_size=6), st.lists(signs).map(bytes)))
    assert is_read_or_refused_in_words(bytes(text))


REPO = Path(__file__).parents[2]
# Descriptors of real machines: more of them, including a Galaxy, where TTMEM_SHARED_DATA says.
FOLDERS = (
    Path(os.environ.get("TTMEM_SHARED_DATA") or REPO.parent / "shared/data/cluster_descriptors"),
    REPO / "tests" / "data" / "cluster_descriptors",
)
FILES = {path.name: path for folder in FOLDERS for path in sorted(folder.glob("*.yaml"))}


@pytest.mark.parametrize("path", FILES.values(), ids=FILES)
def test_a_real_machine_is_read_and_has_capacities(path: Path) -> None:
    cluster = read_cluster(path)
    for chip in cluster.chips:
        known = board(chip.board_type or "")
        spec = device_spec(chip.board)
        assert chip.arch is known.arch
        assert (chip.position is not None) == known.name.endswith("galaxy")
        assert 0 < spec.l1_capacity < spec.l1_total
        assert 0 < spec.dram_capacity < spec.dram_banks * spec.dram_view_size


@pytest.mark.parametrize("path", FILES.values(), ids=FILES)
def test_every_chip_of_a_real_galaxy_has_a_place_of_its_own(path: Path) -> None:
    positions = [chip.position for chip in read_cluster(path).chips if chip.position]

    expected = [f"T{tray}:N{chip}" for tray in range(1, 5) for chip in range(1, 9)]
    assert sorted(positions) in ([], expected)


def test_a_file_that_becomes_a_pipe_blocks_nobody(tmp_path: Path) -> None:
    # given a name that is a descriptor and a pipe in turn
    name, file, pipe = (str(tmp_path / part) for part in ("name", "file", "pipe"))
    Path(file).write_text("arch: {}")
    os.mkfifo(pipe)
    script = f"""
import os
while True:
    for one in ({file!r}, {pipe!r}):
        os.link(one, {name!r} + ".new")
        os.rename({name!r} + ".new", {name!r})
"""
    with subprocess.Popen([sys.executable, "-c", script]) as enemy:
        try:
            wait_until(lambda: os.path.exists(name))
            # when it is read again and again, then each time it is refused, and none waits
            for _ in range(500):
                with pytest.raises(BadInput):
                    read_cluster(name)
        finally:
            enemy.kill()


def test_a_file_on_which_its_owner_holds_a_lease_blocks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "leased.yaml"
    path.write_text("arch: {}")
    script = f"""
import fcntl, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
file = open({str(path)!r}, "r+")
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("leased", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"leased\n"

        with pytest.raises(BadInput, match="cannot be read: Resource temporarily unavailable"):
            read_cluster(path)
        owner.kill()
