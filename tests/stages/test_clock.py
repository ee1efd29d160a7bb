"""The SM clock is cycles over time; the stamping kernel suits every architecture."""

import subprocess

import numpy as np
import pytest

import ptxsim
import tiny_build
from cutesnake.model.targets import TARGETS
from cutesnake.stages.measure import clock, timing


def stamps(*per_sm):
    return [*per_sm, *[(0, 0)] * (4 - len(per_sm))]


def test_the_clock_is_the_median_over_the_sms():
    before = stamps((1_000, 10_000), (50_000, 10_000), (7, 10_000))
    after = stamps((181_000, 110_000), (230_000, 110_000), (190_007, 110_000))  # 180,000 and 190,000 cycles in 100 us
    assert clock.clock_mhz(before, after) == pytest.approx(1800.0)


def test_only_sms_that_were_stamped_both_times_count():
    before, after = stamps((0, 0), (1_000, 10_000)), stamps((99, 20_000), (16_000, 20_000))
    assert clock.clock_mhz(before, after) == pytest.approx(1500.0)
    assert clock.clock_mhz(stamps((5, 10)), stamps((0, 0))) is None


@pytest.mark.parametrize("target", ["sm_80", *TARGETS])
def test_the_kernel_that_stamps_assembles(tmp_path, target):
    source = tmp_path / "stamp.ptx"
    source.write_text(clock.PTX)
    command = [tiny_build.tool("ptxas"), f"-arch={target}", "-o", str(tmp_path / "stamp.cubin"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_kernel_stamps_the_slot_of_its_sm():
    """In ptxsim every block runs on SM 0, and both counters count reads."""
    row = np.zeros((clock.SLOTS, 2), np.uint64)
    module = ptxsim.Module.from_text(clock.PTX)
    ptxsim.run(ptxsim.launch(module, clock.SYMBOL, (2,), (1,), (row,)))
    assert row[0, 0] > 0 and row[0, 1] > row[0, 0]
    assert not row[1:].any()


class Span:
    """In place of clock.Span: notes what is asked of it."""

    def __init__(self):
        self.calls = []

    def begin(self, stream):
        self.calls.append(("begin", stream))

    def end(self, stream):
        self.calls.append(("end", stream))


def test_hot_stamps_lie_ten_milliseconds_of_work_apart():
    span = Span()
    before_launch = timing.HotClock(span, graph_us=250.0)
    for _ in range(101):
        before_launch(7)
    assert span.calls == [("begin", 7), ("end", 7), ("end", 7)]  # before launches 0, 40 and 80


def test_a_long_call_is_stamped_before_every_launch():
    span = Span()
    before_launch = timing.HotClock(span, graph_us=30_000.0)
    for _ in range(3):
        before_launch(7)
    assert span.calls == [("begin", 7), ("end", 7), ("end", 7)]
