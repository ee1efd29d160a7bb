"""Replays of graphs.

How many there are, and that a GPU's other mode of a twentieth of a second decides no median.
"""

import contextlib
import time
from types import SimpleNamespace

import pytest

from cutesnake.stages.measure import replay
from cutesnake.stages.measure.replay import Replays

LAUNCH_US = 10.0  # what a replay takes beyond its calls
FAST = 0.95


class Gpu:
    """A mocked GPU with a clock of its own.

    Calls take `one_us`, less while `fast` says so.
    """

    def __init__(self, monkeypatch, one_us, fast=lambda seconds: False):
        torch = pytest.importorskip("torch")
        self.now, self.one_us, self.fast, self.captured = 0.0, one_us, fast, []
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Event(self))
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.wait)
        monkeypatch.setattr(replay, "capture", self.capture)
        self.stream = SimpleNamespace(cuda_stream=0, synchronize=lambda: None)
        span = SimpleNamespace(begin=lambda stream: None, end=lambda stream: None, mhz=lambda: 1980.0)
        self.stamper = SimpleNamespace(span=lambda: span)

    def wait(self, seconds):
        self.now += seconds

    def capture(self, call, stream, calls):
        self.captured.append(calls)
        return SimpleNamespace(replay=lambda: self.run(calls))

    def run(self, calls):
        self.now += (LAUNCH_US + calls * self.one_us * (FAST if self.fast(self.now) else 1.0)) / 1e6


class Event:
    def __init__(self, clock):
        self.clock = clock

    def record(self):
        self.at = self.clock.now

    def elapsed_time(self, other):
        return (other.at - self.at) * 1e3


@pytest.mark.parametrize("one_us, calls", [(8.0, 23), (4.0, 32), (90.0, 3), (300.0, 1)])
def test_a_graph_is_filled_by_what_calls_take_in_a_graph_of_several(monkeypatch, one_us, calls):
    # A single replay has the launch on top, which for a call of 8 us had made it a graph of 12 calls.
    gpu = Gpu(monkeypatch, one_us)
    single = gpu.capture(None, None, 1)
    graph, result = replay.filled(lambda stream: None, single, gpu.stream, gpu.stamper)
    assert result == calls == gpu.captured[-1]
    assert (graph is single) is (calls == 1)


@pytest.mark.parametrize("one_us", [8.0, 400.0, 4000.0])
@pytest.mark.parametrize("begins", [0.0, 0.04, 0.1])
def test_sustained_replays_are_not_decided_by_a_twentieth_of_a_second(monkeypatch, one_us, begins):
    gpu = Gpu(monkeypatch, one_us, lambda now: begins <= now < begins + replay.MODE_SECONDS)
    graph = gpu.capture(None, None, 20)
    result = replay.sustained(graph, gpu.stream, 20, one_us, gpu.stamper)
    assert gpu.now >= replay.MOMENTS * replay.MODE_SECONDS
    assert result.us == pytest.approx(one_us + LAUNCH_US / 20)
    assert result.range_percent > 3.0 or one_us > 1000.0  # the record tells that it was there


def test_a_mode_that_stays_while_the_card_has_work_is_left_in_a_pause(monkeypatch):
    # Whether a GPU does so is not known. Two batches of half a second without a pause were faster as a whole.
    begins, mode = 0.04, {"until": None}

    def fast(now):
        if now >= begins and mode["until"] is None:
            mode["until"] = float("inf")
        return mode["until"] is not None and now < mode["until"]

    gpu = Gpu(monkeypatch, 8.0, fast)
    monkeypatch.setattr(
        time,
        "sleep",
        lambda seconds: (
            mode.update(until=0.0) if gpu.now > begins + replay.MODE_SECONDS else None,
            gpu.wait(seconds),
        ),
    )
    result = replay.sustained(gpu.capture(None, None, 20), gpu.stream, 20, 8.0, gpu.stamper)
    assert result.us == pytest.approx(8.0 + LAUNCH_US / 20)
    assert result.range_percent > 3.0


def test_sustained_replays_are_as_many_as_fit_and_fifteen_at_least(monkeypatch):
    gpu = Gpu(monkeypatch, 20_000.0)
    replay.sustained(gpu.capture(None, None, 1), gpu.stream, 1, 20_000.0, gpu.stamper)
    assert gpu.now == pytest.approx((3 + replay.LEAST_REPLAYS) * 0.02 + 2 * replay.PAUSE_SECONDS, rel=1e-3)


@pytest.mark.parametrize("begins", [0.0, 0.001, 0.03, 0.06, 0.1])
def test_a_burst_is_not_decided_by_a_twentieth_of_a_second(monkeypatch, begins):
    gpu = Gpu(monkeypatch, 8.0, lambda now: begins <= now < begins + 0.047)
    graph = gpu.capture(None, None, 25)
    result = replay.at_moments(lambda: replay.replay(graph, gpu.stream, 25, 7, gpu.stamper))
    assert result.us == pytest.approx(8.0 + LAUNCH_US / 25)
    assert result.range_percent == pytest.approx(100 * 8.0 * (1 - FAST) / result.us) or begins == 0.06


def test_moments_lie_apart_and_the_middle_one_counts(monkeypatch):
    gpu = Gpu(monkeypatch, 8.0)
    began, samples = [], [Replays(8.5, 1975.0), Replays(8.1, 1970.0), Replays(8.4, 1980.0)]

    def sample():
        began.append(gpu.now)
        gpu.now += 0.01
        return samples[len(began) - 1]

    result = replay.at_moments(sample)
    assert began == pytest.approx([0.0, 0.05, 0.1])
    assert (result.us, result.sm_clock_mhz) == (8.4, 1980.0)
    assert result.range_percent == pytest.approx(100 * 0.4 / 8.4)


def test_few_replays_have_no_range():
    assert replay.middle_range_percent([1.0] * (replay.LEAST_REPLAYS - 1)) is None
    assert replay.middle_range_percent([*[1.0] * 15, 9.0]) == 0.0
