"""One launch on a card: representative clusters simulated, the rest of the grid worked out from them."""

from __future__ import annotations

from dataclasses import dataclass

from ..cluster import Stuck
from ..launch import Launch
from ..syntax import PtxError
from .device import DeviceModel
from .grid import Placement, place
from .memory_system import Cache, MemorySystem, Traffic, evicted, missing
from .prediction import LaunchTime
from .recorder import Recorder
from .sass import Code
from .simulation import Simulation
from .timed_machine import TimedMachine

_ROUNDS = 4  # clusters that a group of SMs runs one after the other before the rest is taken to go on like the last
_EARLY = "attribute_6"  # of a launch: programmatic stream serialization, by its number in cudaLaunchAttributeID


@dataclass(frozen=True, slots=True)
class Misses:
    """Per allocation the share of its reads that miss L2, and the share of stored bytes that go on to DRAM."""

    reads: dict[int, float]
    write_back: float


@dataclass(frozen=True, slots=True)
class Timed:
    """What came out for a launch, in cycles from its start.

    `awaited` is when it waits for the grid before it (griddepcontrol.wait; None: never), `triggered` when it lets the
    next one start (griddepcontrol.launch_dependents, or its end).
    """

    launch: Launch
    cycles: float
    awaited: float | None
    triggered: float
    placement: Placement
    tensor_percent: float
    dram_percent: float
    l2_percent: float
    misses: Misses
    recorder: Recorder

    @property
    def early(self) -> bool:
        """Whether it may start before the grid before it has ended."""
        return bool(self.launch.attributes.get(_EARLY, (0,))[0])

    def at(self, start_us: float, end_us: float, clock_mhz: float) -> LaunchTime:
        return LaunchTime(
            name=self.launch.name,
            start_us=start_us,
            end_us=end_us,
            cycles=self.cycles,
            waves=self.placement.waves,
            blocks_per_sm=self.placement.places,
            tensor_percent=self.tensor_percent,
            dram_percent=self.dram_percent,
            l2_percent=self.l2_percent,
            timeline=self.recorder.timeline(self.cycles, clock_mhz),
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """What a group of SMs did: the cycles of all clusters that it runs, and of these so many simulated ones."""

    simulation: Simulation
    cycles: float
    clusters: int


class Setting:
    """A launch on a card at a clock, ready to be tried."""

    def __init__(self, launch: Launch, card: DeviceModel, code: Code | None, clock_mhz: float, cache: Cache) -> None:
        self.launch, self.card, self.code, self.clock_mhz, self.cache = launch, card, code, clock_mhz, cache
        self.placement = place(launch, card, code)

    def machine(self) -> TimedMachine:
        """A machine that only times: copies and products are not made, and stores are taken back."""
        return TimedMachine(self.launch, self.card, self.code, numerics=False)

    def memory(self, misses: Misses) -> MemorySystem:
        placement = self.placement
        memory = MemorySystem(self.card.figures, self.clock_mhz, placement.cluster_size, placement.active_sms)
        memory.misses, memory.write_back = misses.reads, misses.write_back
        return memory

    def simulate(
        self, machine: TimedMachine, misses: Misses, recorder: Recorder, group: int = 0, most: int | None = None
    ) -> Trial:
        """Run the clusters of one group of SMs, at most so many of them; the others are taken to go on alike."""
        launch, placement = self.launch, self.placement
        sharers = 2 if placement.active_sms > self.card.figures.sm_count / 2 else 1
        simulation = Simulation(machine, self.memory(misses), placement.places, sharers, recorder)
        numbers = range(group, placement.clusters, placement.groups)
        wanted = set(numbers[:most])
        try:
            ran = simulation.run([(n, indices) for n, indices in enumerate(launch.clusters()) if n in wanted])
        except Stuck:
            said = [f.message for f in machine.findings if f.kind == "deadlock"]
            what = (said or ["its warps only poll"])[0]
            raise PtxError(f"kernel {launch.name[:80]} does not end: {what}") from None
        finally:
            machine.take_back()
        cycles = max(x.drained for x in ran)
        left = len(numbers) - len(ran)
        if left:
            ends, at_once = sorted(x.end for x in ran), min(placement.places, len(ran) - 1)
            cycles += left * (ends[-1] - ends[at_once - 1]) / (len(ends) - at_once)
        return Trial(simulation, cycles, len(ran))

    def misses(self, traffic: Traffic, clusters: int) -> Misses:
        """What the whole grid reads and writes, taken from that of so many clusters, against what L2 holds."""
        scale = self.placement.clusters / clusters
        sizes = {a.address: float(a.size) for a in self.launch.memory.allocations}
        read = {key: size * scale for key, size in traffic.read.items()}
        written = {key: size * scale for key, size in traffic.written.items()}
        unique = {key: min(read.get(key, 0.0) + written.get(key, 0.0), sizes.get(key, 1e18)) for key in read | written}
        footprint, capacity = sum(unique.values()), self.card.figures.l2_bytes
        if self.placement.waves > 1:  # see docs/ptxsim.md: each half of L2 serves the SMs on its side
            capacity /= 2
        reads = {key: missing(size, unique[key], footprint, capacity, self.cache) for key, size in read.items()}
        return Misses(reads, evicted(footprint / capacity))

    def outcome(self, cycles: float, trials: list[Trial], misses: Misses, recorder: Recorder) -> Timed:
        """What the simulated groups say about the whole grid."""
        f, placement = self.card.figures, self.placement
        scale = placement.clusters / sum(trial.clusters for trial in trials)
        simulations = [trial.simulation for trial in trials]
        tensor = scale * sum(sm.tensor_busy for s in simulations for sm in s.sms)
        dram = scale * sum(s.memory.traffic.dram for s in simulations)
        l2 = scale * sum(s.memory.traffic.l2 for s in simulations)
        return Timed(
            self.launch,
            cycles,
            simulations[0].awaited,
            min(max(cycles if s.triggered is None else s.triggered for s in simulations), cycles),
            placement,
            100 * tensor / (cycles * f.sm_count),
            100 * dram / (cycles * f.dram_read_gb_per_s * 1e3 / self.clock_mhz),
            100 * l2 / (cycles * f.l2_bytes_per_cycle),
            misses,
            recorder,
        )


def time_launch(setting: Setting) -> Timed:
    """Simulate some clusters twice: to see what they read and write, then with what L2 can have of that."""
    most = _ROUNDS * setting.placement.places
    first = setting.simulate(setting.machine(), Misses({}, 0.0), Recorder(False), most=most)
    misses = setting.misses(first.simulation.memory.traffic, first.clusters)
    recorder = Recorder()
    last = setting.simulate(setting.machine(), misses, recorder, most=most)
    return setting.outcome(last.cycles, [last], misses, recorder)


def time_in_full(setting: Setting, machine: TimedMachine, misses: Misses) -> Timed:
    """Simulate every cluster of the grid, group after group."""
    recorder, trials = Recorder(), []
    for group in range(min(setting.placement.groups, setting.placement.clusters)):
        trials.append(setting.simulate(machine, misses, recorder if not group else Recorder(False), group))
    return setting.outcome(max(trial.cycles for trial in trials), trials, misses, recorder)
