"""Plans are timed as graphs if they can be captured, else on the host."""

import time

import pytest

from cutesnake.model.contract import Runner
from cutesnake.stages.measure import plan_time
from cutesnake.stages.measure import replay as replays_of_graphs
from cutesnake.stages.measure.replay import Replays


class Stream:
    """In place of a torch stream: a plan's work is done when it returns."""

    cuda_stream = 7

    def synchronize(self):
        pass


class Planner:
    """A runner whose plan takes `seconds` of the host."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds
        self.planned = []

    def plan(self, stream):
        self.planned.append(stream)
        time.sleep(self.seconds)


@pytest.fixture
def graphs(monkeypatch):
    """Captures become lists of the streams that were given; returns the graphs that were replayed."""
    replayed = []

    def capture(call, stream, calls):
        return [call(stream.cuda_stream) for _ in range(calls)]

    def replay(graph, stream, calls, replays, stamper, part=None):
        replayed.append((len(graph), calls, replays))
        return Replays(20.0 if calls == 1 else 12.5, 1900.0)

    def replay_cold(graph, stream, replays, flush):
        flush()
        return Replays(14.5 * len(graph), None)

    for module in (plan_time, replays_of_graphs):
        monkeypatch.setattr(module, "capture", capture)
        monkeypatch.setattr(module, "replay", replay)
    monkeypatch.setattr(plan_time, "kernel_nodes", len)
    monkeypatch.setattr(plan_time, "replay_cold", replay_cold)
    monkeypatch.setattr(replays_of_graphs, "MODE_SECONDS", 0.001)
    return replayed


@pytest.fixture(autouse=True)
def flushes(monkeypatch):
    """What throws the L2 cache away is counted: one entry for each time."""
    result = []
    monkeypatch.setattr(plan_time, "flusher", lambda stream: lambda: result.append(stream))
    return result


def test_a_runner_without_a_plan_has_no_time_of_it():
    result = plan_time.time_plan(Runner(lambda stream: None), Stream(), None)
    assert result == {"plan_us": None, "plan_cold_us": None, "plan_kind": None}


def test_a_plan_on_the_card_is_replayed_in_a_graph_of_several(graphs, flushes):
    planner = Planner()
    result = plan_time.time_plan(planner, Stream(), None)
    assert result == {"plan_us": 12.5, "plan_cold_us": 14.5, "plan_kind": "graph"}  # cold: a graph of one plan
    # One plan takes 20 us, launch included: ten of them for 200 us, which then are 16. Sustained: 0.15 s of 200 us.
    assert graphs[:3] == [(1, 1, 5), (10, 10, 5), (16, 16, 15)]
    assert graphs[3][:2] == (16, 16) and graphs[3][2] == pytest.approx(750, abs=1)
    assert len(flushes) == replays_of_graphs.MOMENTS
    assert set(planner.planned) == {Stream.cuda_stream}


def test_a_plan_that_cannot_be_captured_is_timed_on_the_host(graphs, monkeypatch):
    def refuse(call, stream, calls):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(plan_time, "capture", refuse)
    result = plan_time.time_plan(Planner(0.002), Stream(), None)
    assert result["plan_kind"] == "host" and not graphs
    assert 2000 <= result["plan_us"] < 20_000 and 2000 <= result["plan_cold_us"] < 20_000


def test_the_cache_is_flushed_before_every_cold_plan_on_the_host_and_before_no_warm_one(graphs, monkeypatch, flushes):
    monkeypatch.setattr(plan_time, "kernel_nodes", lambda graph: 0)
    planner = Planner()
    plan_time.time_plan(planner, Stream(), None)
    assert len(flushes) == plan_time.REPLAYS
    assert len(planner.planned) == 3 + 1 + 2 * plan_time.REPLAYS  # to warm up, captured, warm and cold


def test_a_plan_that_launches_nothing_is_timed_on_the_host(graphs, monkeypatch):
    monkeypatch.setattr(plan_time, "kernel_nodes", lambda graph: 0)
    assert plan_time.time_plan(Planner(), Stream(), None)["plan_kind"] == "host"
    assert not graphs


def test_a_plan_that_fails_is_no_figure(graphs):
    class Broken:
        def plan(self, stream):
            raise ValueError("lengths are missing")

    with pytest.raises(ValueError, match="lengths are missing"):
        plan_time.time_plan(Broken(), Stream(), None)
