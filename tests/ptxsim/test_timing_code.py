"""Instruction caches at launch, and what warps wait for."""

import pytest

from ptxsim.timing.device import DeviceModel
from ptxsim.timing.hardware import CodeCache
from ptxsim.timing.sass import Code, SassOp

H100 = DeviceModel.load("h100")
LINES = 8  # of a KiB
ISSUE = 8 * H100.constants.fetch_small_cycles  # of a line


def once(cache: CodeCache, lines: range, at: float = 0.0) -> float:
    """When a warp has issued straight code."""
    asked = at - ISSUE
    for line in lines:
        at += cache.fetch(line, at, asked)
        asked, at = at, at + ISSUE
    return at


def launched(kib: int, cold: bool = False, others: int = 0) -> CodeCache:
    cache = CodeCache(H100.constants)
    lines = kib * LINES + 4  # and what stands around it
    cache.launched(lines, range(lines), others, cold)
    return cache


@pytest.mark.parametrize(
    ("kib", "cold", "measured"),
    [
        *((16, False, 1.06), (96, False, 2.41), (160, False, 4.22), (256, False, 4.94), (384, False, 5.25)),
        *((96, True, 2.41), (160, True, 8.38), (192, True, 9.63), (256, True, 10.5), (384, True, 11.4)),
    ],
)
def test_straight_code_takes_what_was_measured_by_its_size(kib, cold, measured) -> None:
    """Groups `first_use` and `same_tiles` of benchmarks/microbenchmarks/, an H100, cycles an instruction."""
    cycles = once(launched(kib, cold), range(kib * LINES)) / (8 * LINES * kib)
    assert cycles == pytest.approx(measured, rel=0.08)


def test_other_kernels_of_a_call_push_code_out() -> None:
    alone, compared = (once(launched(100, others=others), range(100 * LINES)) for others in (0, 60 * LINES))
    far, large = H100.constants.fetch_far_cycles, H100.constants.fetch_large_cycles
    assert compared - alone == pytest.approx(36 * LINES * 8 * (far - large), rel=0.05)  # all beyond the first 64 KiB


def test_a_line_on_its_way_for_one_warp_is_waited_for_by_others() -> None:
    cache = launched(96)
    first = once(cache, range(50 * LINES))
    assert once(cache, range(50 * LINES - 20, 50 * LINES), first - 20 * 8 * 2.42) == pytest.approx(first, abs=25)
    assert cache.fetch(50 * LINES - 1, first + 100, first) == 0


def test_a_warp_that_waits_for_something_else_has_the_next_line_then() -> None:
    cache = launched(96)
    cache.fetch(0, 0.0, -ISSUE)
    assert cache.fetch(1, 500.0, 20.0) == 0
    assert cache.fetch(300, 600.0, 600.0 - ISSUE) > 10  # a branch's target is asked for at the branch


def test_only_code_of_lines_that_run_takes_room() -> None:
    ops = tuple(SassOp(16 * n, 0, "alu", 1, -1, -1, 0, n // 16, False) for n in range(64))
    code = Code("k", ops)
    assert code.code_lines(frozenset({0, 3})) == [0, 1, 6, 7]
    assert code.code_lines(frozenset()) == list(range(8))
