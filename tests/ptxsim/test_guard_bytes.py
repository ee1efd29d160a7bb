"""No run writes outside a caller's buffer, whatever its alignment."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import kernel_text

import ptxsim
from ptxsim.memory.global_memory import Allocation

# Each thread below %r3 adds one to its byte of the buffer.
COUNT_BYTES = """ld.param.u64 %d1, [p0]; ld.param.u32 %r3, [p1]; mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, %r3;
@%p1 bra E; cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2; ld.global.u8 %r2, [%d1]; add.u32 %r2, %r2, 1;
st.global.u8 [%d1], %r2; E:"""
ROOM = 128  # guard bytes on either side, at the least


def guarded(begin: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return memory with guards around a buffer at `begin` bytes past 64."""
    memory = np.zeros(size + 3 * ROOM, np.uint8)
    first = ROOM - memory.ctypes.data % 64 + begin
    guard = np.ones(len(memory), bool)
    guard[first : first + size] = False
    return memory, memory[first : first + size], guard


def counting(buffer: np.ndarray) -> ptxsim.Launch:
    """A launch of COUNT_BYTES on a buffer of at most 64 bytes."""
    module = ptxsim.Module.from_text(kernel_text(COUNT_BYTES))
    return ptxsim.launch(module, "k", (1,), (64,), (buffer, np.uint64(len(buffer))))


@pytest.mark.parametrize("begin", range(0, 17))
@pytest.mark.parametrize("size", [1, 7, 8, 15, 16, 17, 24, 33])
def test_a_search_leaves_what_others_write_beside_a_buffer_between_its_runs(begin: int, size: int) -> None:
    # The bytes next to a buffer may be the allocator's, which changes them while ptxsim works.
    memory, buffer, guard = guarded(begin, size)
    seen = []

    def others_write() -> None:
        seen.append((buffer.tolist(), set(memory[guard].tolist())))
        memory[guard] = len(seen)

    result = ptxsim.run(counting(buffer), "search", runs=3, judge=others_write)
    assert result.ok
    assert seen == [([1] * size, {0}), ([1] * size, {1}), ([1] * size, {2})]  # each run began with the same buffer


@pytest.mark.parametrize("schedule", ["random", "timed"])
@pytest.mark.parametrize(("begin", "size"), [(0, 24), (3, 1), (8, 24), (9, 40), (15, 17)])
def test_a_run_writes_nothing_beside_a_buffer(begin: int, size: int, schedule: str) -> None:
    memory, buffer, guard = guarded(begin, size)
    memory[guard] = 0xA5
    assert ptxsim.run(counting(buffer), schedule).ok
    assert (buffer == 1).all() and (memory[guard] == 0xA5).all()


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_a_store_across_an_end_of_a_buffer_is_reported_and_not_made(width: int) -> None:
    vector = {1: "u8 [%d1], %r1", 2: "u16 [%d1], %r1", 4: "u32 [%d1], %r1", 8: "u64 [%d1], %d3"}
    store = vector.get(width, "v2.u64 [%d1], {%d3, %d3}")
    body = "ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; add.u64 %d1, %d1, %d2; mov.u32 %r1, -1; mov.u64 %d3, -1;"
    body += f"st.global.{store};"
    module = ptxsim.Module.from_text(kernel_text(body))
    for begin, size in ((8, 24), (3, 22), (0, 24), (13, 40)):
        memory, buffer, guard = guarded(begin, size)
        memory[guard] = 0xA5
        for at in range(-begin - 16, size + 33):
            if (begin + at) % width:
                continue
            inside = at >= 0 and at + width <= size
            result = ptxsim.run(ptxsim.launch(module, "k", (1,), (1,), (buffer, np.uint64(at % (1 << 64)))), "eager")
            assert [f.kind for f in result.findings] == ([] if inside else ["out-of-bounds"])
            assert (memory[guard] == 0xA5).all()


def test_the_bytes_of_an_allocation_are_those_of_its_buffer() -> None:
    memory, buffer, _ = guarded(5, 21)
    memory[:] = np.arange(len(memory)) % 251
    allocation = Allocation("x", buffer.ctypes.data, buffer.nbytes)
    assert np.array_equal(allocation.bytes, buffer)
    assert all(view.nbytes <= allocation.slack + allocation.size for view in allocation.words.values())
