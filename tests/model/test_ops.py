"""Operations: which programs they run, what they hold, and what they leave behind when they fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.model.running import RecordingTracker
from ttmem.events import MemoryKind
from ttmem.model import MeshDevice, open_device, ops
from ttmem.model.circular_buffers import BufferKind, union_bytes
from ttmem.model.errors import BadBuffer, ClashFault
from ttmem.model.program import SimulatedProgram
from ttmem.model.tensor import Memory, Temporaries, Tensor, from_shape, over_grid

SQUARE = (1024, 1024)


@pytest.fixture
def mesh() -> Iterator[MeshDevice]:
    with open_device(l1_small_size=32_768, tracker=RecordingTracker()) as mesh:
        yield mesh


def square(mesh: MeshDevice, memory: Memory = "dram") -> Tensor:
    return from_shape(mesh, SQUARE, memory=memory)


def only_program(mesh: MeshDevice) -> SimulatedProgram:
    """Of the application; the runtime's own come first."""
    return list(mesh.workloads.values())[-1].program


@pytest.mark.parametrize(
    ("memory", "address", "reserved"), [("l1", 1_519_616, 2_252_800), ("dram", 1_048_704, 1 << 21)]
)
def test_a_square_of_bfloat16_lies_where_the_real_runtime_puts_it(
    mesh: MeshDevice, memory: Memory, address: int, reserved: int
) -> None:
    tensor = square(mesh, memory)

    assert (tensor.tiles, tensor.page_size, tensor.buffer.size) == ((32, 32), 2048, 1 << 21)
    assert (tensor.buffer.address, tensor.buffer.reserved) == (address, reserved)


def test_a_tile_that_is_cut_short_is_whole_in_memory(mesh: MeshDevice) -> None:
    assert from_shape(mesh, (3, 33, 1)).buffer.size == 3 * 2 * 2048
    assert from_shape(mesh, (7,), element_bytes=4).buffer.size == 4096


@pytest.mark.parametrize("shape", [(), (0, 4), (-1,), (2.5, 2)])
def test_an_impossible_tensor_is_refused(mesh: MeshDevice, shape: tuple[int, ...]) -> None:
    with pytest.raises(BadBuffer):
        from_shape(mesh, shape)
    with pytest.raises(BadBuffer, match="unknown memory"):
        from_shape(mesh, SQUARE, memory="sram")  # type: ignore[arg-type]


def test_add_has_three_circular_buffers_of_two_tiles_on_all_110_cores(mesh: MeshDevice) -> None:
    a = square(mesh)
    ops.add(a, a)
    program = only_program(mesh)
    assert program.l1 is not None

    assert [buffer.size for buffer in program.buffers] == [4096] * 3
    assert program.l1.union_bytes == 1_351_680


def test_the_same_call_hits_and_another_memory_or_shape_misses(mesh: MeshDevice) -> None:
    cache, a = mesh.program_cache, square(mesh)
    for _ in range(3):
        ops.add(a, a).deallocate()
    once = (cache.hits, cache.misses)
    ops.add(a, a, memory="l1").deallocate()
    half = from_shape(mesh, (512, 1024))
    ops.add(half, half)

    assert (once, cache.hits, cache.misses) == ((2, 1), 2, 3)


def test_programs_of_other_shapes_share_their_readers(mesh: MeshDevice) -> None:
    a, b = from_shape(mesh, (32, 64)), from_shape(mesh, (64, 1024))
    c = ops.matmul(a, b)
    first = only_program(mesh).kernels
    ops.matmul(c, from_shape(mesh, (1024, 64)))
    second = only_program(mesh).kernels
    same = [x.content_id == y.content_id for x, y in zip(first, second, strict=True)]

    assert same == [True, True, False]


def test_every_operation_runs_and_frees_nothing_of_its_inputs(mesh: MeshDevice) -> None:
    a, tokens = square(mesh), from_shape(mesh, (1, 32), element_bytes=4)
    keys = from_shape(mesh, (8, 1024, 128))
    before = mesh.memory_view(MemoryKind.DRAM).total_bytes_allocated_per_bank
    with Temporaries() as keep:
        shapes = [
            keep(result).shape
            for result in (
                ops.gelu(a),
                ops.softmax(a),
                ops.layer_norm(a),
                ops.matmul(a, a),
                ops.embedding(tokens, a),
                ops.scaled_dot_product_attention(a, keys, keys),
            )
        ]
    binaries = sum(
        w.program.finalize_offsets().binary_data_bytes > 0 for w in mesh.workloads.values()
    )
    mesh.clear_program_cache()

    assert shapes == [SQUARE] * 4 + [(1, 32, 1024), SQUARE]
    assert binaries == 7  # with that of dispatch
    assert mesh.memory_view(MemoryKind.DRAM).total_bytes_allocated_per_bank == before


def test_a_metal_2_matmul_has_dataflow_buffers_only(mesh: MeshDevice) -> None:
    a = square(mesh)
    ops.matmul(a, a, dataflow_buffers=True)

    assert {buffer.kind for buffer in only_program(mesh).buffers} == {BufferKind.DATAFLOW}


def test_conv2d_works_on_the_shards_and_follows_its_image(mesh: MeshDevice) -> None:
    shape = (1, 1, 3136, 64)
    shard = over_grid(mesh, shape, "height")
    weights, halo = from_shape(mesh, (576, 64)), ops.prepare_halo(mesh, shape)
    images = [from_shape(mesh, shape, memory="l1", shard=shard) for _ in range(2)]
    outputs = [ops.conv2d(image, weights, halo) for image in images]
    aliased = only_program(mesh).buffers[0]

    assert (halo.buffer.kind, halo.buffer.block) == (MemoryKind.L1_SMALL, 2048)
    assert [tensor.shard for tensor in outputs] == [shard, shard]
    assert (aliased.is_global, aliased.address) == (True, images[1].buffer.address)
    assert (mesh.program_cache.hits, mesh.program_cache.misses) == (1, 1)


def test_an_operation_that_clashes_leaves_no_output(mesh: MeshDevice) -> None:
    a = square(mesh)
    rounds = mesh.spec.l1_bank_size // 2048 - 3
    from_shape(mesh, (32 * 110 * rounds, 32), memory="l1")
    before = set(mesh.buffers)

    with pytest.raises(ClashFault, match="clash with L1 buffers"):
        ops.add(a, a)
    assert (set(mesh.buffers), mesh.num_program_cache_entries()) == (before, 0)
    assert (
        union_bytes(
            w.program.l1.regions_per_core() for w in mesh.workloads.values() if w.program.l1
        )
        == 0
    )


def test_shapes_that_do_not_match_are_refused(mesh: MeshDevice) -> None:
    a, b = square(mesh), from_shape(mesh, (32, 1024))

    with pytest.raises(BadBuffer, match="cannot add shapes"):
        ops.add(a, b)
    with pytest.raises(BadBuffer, match="cannot multiply shapes"):
        ops.matmul(a, b)
    with pytest.raises(BadBuffer, match="sharded image"):
        ops.conv2d(a, b, b)


def test_temporaries_go_when_the_block_fails(mesh: MeshDevice) -> None:
    def fails() -> None:
        with Temporaries() as keep:
            keep(square(mesh)).deallocate()
            keep(square(mesh))
            raise LookupError

    with pytest.raises(LookupError):
        fails()
    assert mesh.buffers == {}
