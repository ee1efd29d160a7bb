"""Measure the SM clock of a span by the GPU's cycle and time counters.

NVML's clock is a reading of one moment and comes every few milliseconds: too coarse for seven replays of a graph. Here
a kernel of a few instructions writes, on every SM, its cycle counter and the GPU's nanosecond counter, once before
and once after the timed work; the clock is cycles over time between the two. NVBench finds the clock of its cold
samples in the same way, so that the figures of all kinds of samples compare. The GPU's time counter ticks every
microsecond or faster: over 400 us, the shortest span here, the clock is good to half a per cent.
"""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Iterable
from typing import Any

SLOTS = 1024  # more SM numbers than any GPU has
SYMBOL = "stamp"
# One 16-byte slot per SM number: cycles, nanoseconds. PTX of the oldest kind that the driver of every GPU compiles.
PTX = f"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry {SYMBOL}(.param .u64 row)
{{
    .reg .pred %outside;
    .reg .b32 %sm;
    .reg .b64 %slot, %offset, %cycles, %nanoseconds;
    mov.u32 %sm, %smid;
    setp.ge.u32 %outside, %sm, {SLOTS};
    @%outside bra done;
    ld.param.u64 %slot, [row];
    cvta.to.global.u64 %slot, %slot;
    mul.wide.u32 %offset, %sm, 16;
    add.u64 %slot, %slot, %offset;
    mov.u64 %cycles, %clock64;
    mov.u64 %nanoseconds, %globaltimer;
    st.global.u64 [%slot], %cycles;
    st.global.u64 [%slot+8], %nanoseconds;
done:
    ret;
}}
"""

Stamps = Iterable[tuple[int, int]]  # per SM number (cycles, nanoseconds), zeros where no block ran


def clock_mhz(begin: Stamps, end: Stamps) -> float | None:
    """Return the median of cycles over time, over SMs stamped twice; or None."""
    rates = [
        1e3 * (cycles - cycles_before) / (time - time_before)
        for (cycles_before, time_before), (cycles, time) in zip(begin, end, strict=True)
        if time_before and time > time_before
    ]
    return statistics.median(rates) if rates else None


class Stamper:
    """The kernel that stamps, loaded into the current context."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        from cutesnake.stages.load.cutile import check, multiprocessors

        self._driver, self._check = driver, check
        self._module = check("cuModuleLoadData", driver.cuModuleLoadData(PTX.encode() + b"\0"))
        self._function = check("cuModuleGetFunction", driver.cuModuleGetFunction(self._module, SYMBOL.encode()))
        self._blocks = multiprocessors()  # of one thread each: an idle GPU spreads them over all of its SMs

    def span(self) -> Span:
        """Return a span of time that has not begun."""
        import torch

        rows = torch.zeros((2, SLOTS, 2), dtype=torch.int64, device="cuda")
        torch.cuda.synchronize()  # the zeros come on another stream than the stamps
        return Span(self, rows)

    def stamp(self, stream: int, address: int) -> None:
        """Enqueue the kernel, which writes the row at `address`."""
        one, none = (1, 1, 1), 0
        parameters = ((address,), (ctypes.c_uint64,))
        launch = self._driver.cuLaunchKernel(self._function, self._blocks, 1, 1, *one, none, stream, parameters, 0)
        self._check(f"cuLaunchKernel {SYMBOL}", launch)


class Span:
    """A stream's span from `begin` to last `end`; `rows`: int64 (2, SLOTS, 2), on GPU."""

    def __init__(self, stamper: Stamper, rows: Any) -> None:
        self._stamper = stamper
        self._rows = rows

    def begin(self, stream: int) -> None:
        """Stamp the begin of the span on a stream."""
        self._stamper.stamp(stream, self._rows[0].data_ptr())

    def end(self, stream: int) -> None:
        """May be called again while the work goes on: the last one counts."""
        self._stamper.stamp(stream, self._rows[1].data_ptr())

    def mhz(self) -> float | None:
        """Return the clock over the span, after waiting for the stream."""
        begin, end = self._rows.tolist()
        return clock_mhz(begin, end)
