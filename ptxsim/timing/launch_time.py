"""Time of one launch: simulate representative clusters, extrapolate to the grid."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..core.cluster import Stuck
from ..core.launch import Launch
from ..frontend.syntax import PtxError
from .device import DeviceModel
from .divisions import numbers_matter, slow_divisions
from .grid import Placement, placement_of
from .machine_code import belongs
from .memory_system import Cache, MemorySystem
from .miss_rate import miss_rates
from .prediction import LaunchTime
from .recorder import Recorder
from .sass import CODE_LINE, Code
from .scout import Survey, Surveyor
from .simulation import FinishedCluster, Simulation
from .timed_machine import TimedMachine

_SIMULATED_PER_SLOT = 4  # simulated clusters per slot; the rest is extrapolated from the last
_MANY_WAVES = 2
_LARGE = 0.9  # of the largest work
_IMPOSSIBLE = 150.0  # percent of peak; interpolated work may exceed 100 by a little
_EARLY = "attribute_6"  # cudaLaunchAttributeProgrammaticStreamSerialization


@dataclass(frozen=True, slots=True)
class Timed:
    """The timing result of a launch, in cycles from its start.

    `awaited` is when it waits for the previous grid (griddepcontrol.wait; None: never). `triggered` is when it lets the
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
    recorder: Recorder
    exact: bool  # whether all clusters have equal work
    without_code: bool

    @property
    def early(self) -> bool:
        """Whether it may start before the previous grid has ended."""
        return bool(self.launch.attributes.get(_EARLY, (0,))[0])

    def at(self, start_us: float, end_us: float, clock_mhz: float) -> LaunchTime:
        return LaunchTime(
            name=self.launch.name,
            start_us=start_us,
            end_us=end_us,
            cycles=self.cycles,
            waves=self.placement.waves,
            blocks_per_sm=self.placement.slots_per_group,
            tensor_percent=self.tensor_percent,
            dram_percent=self.dram_percent,
            l2_percent=self.l2_percent,
            timeline=self.recorder.timeline(self.cycles, clock_mhz),
        )


@dataclass(frozen=True, slots=True)
class Trial:
    """Simulated clusters: their ends, their work, and the cycles of all clusters on their SMs."""

    simulation: Simulation
    finished: list[FinishedCluster]
    cycles: float
    work: float

    @property
    def last(self) -> float:
        """When the last of the clusters ended, stores included."""
        return max(x.drained for x in self.finished)


class Setting:
    """A launch on a device at a clock, ready to simulate."""

    def __init__(
        self,
        launch: Launch,
        device: DeviceModel,
        code: Code | None,
        clock_mhz: float,
        cache: Cache,
        survey: Survey | None = None,
        earlier: Sequence[Setting] = (),
    ) -> None:
        """Prepare a launch after `earlier` ones of the call, surveyed now without a `survey`."""
        self.launch, self.device, self.code, self.clock_mhz, self.cache = launch, device, code, clock_mhz, cache
        self.placement = placement_of(launch, device, code)
        self.survey = survey or surveyed(launch) or Survey((1.0,) * self.placement.clusters, {}, {}, {})
        # In a few waves edge clusters may be among the last; then they are timed too.
        self.uniform = self.survey.equal or (self.survey.but_for_edges and self.placement.waves > _MANY_WAVES)
        before = [(setting.launch, setting.survey) for setting in earlier]
        self.miss_rates = miss_rates(launch, self.survey, self.placement, cache, before, device.constants)
        self.code_lines = [] if code is None else code.code_lines(self.survey.lines)
        self.other_lines = 0  # code lines of the call's other kernels

    @property
    def competing(self) -> int:
        """SMs that compete for bandwidth, in equivalents of the busiest SM."""
        work, at_once = self.survey.work, self.placement.groups * self.placement.slots_per_group
        busy = sum(work) / max(max(work), 1.0) / min(at_once, len(work))
        return max(round(self.placement.active_sms * min(busy, 1.0)), self.placement.cluster_size)

    def machine(self) -> TimedMachine:
        """Return a machine that only times: copies and products are skipped, stores undone."""
        return TimedMachine(
            self.launch, self.device, self.code, numerics=False, slow_divisions=self.survey.slow_divisions
        )

    def simulate(self, machine: TimedMachine, recorder: Recorder, numbers: Sequence[int], most: int) -> Trial:
        """Simulate at most `most` clusters on one group of SMs; extrapolate the rest."""
        f, placement = self.device.constants, self.placement
        memory = MemorySystem(f, self.clock_mhz, placement.cluster_size, self.competing)
        rates = self.miss_rates
        memory.miss_rates, memory.write_back, memory.displaced = rates.reads, rates.write_back, rates.displaced
        memory.readers, memory.kept, memory.cold = rates.readers, rates.kept, self.cache == "cold"
        sharers = 2 if placement.active_sms > f.sm_count / 2 else 1
        simulation = Simulation(machine, memory, placement, sharers, recorder)
        if self.code is not None:
            simulation.launched(-(-self.code.size // CODE_LINE), self.code_lines, self.other_lines)
        clusters = list(self.launch.clusters())
        try:
            finished = simulation.run([(n, clusters[n]) for n in numbers[:most]])
        except Stuck:
            deadlocks = [finding.message for finding in machine.findings if finding.kind == "deadlock"]
            what = (deadlocks or ["its warps only poll"])[0]
            raise PtxError(f"kernel {self.launch.name[:80]} does not end: {what}") from None
        finally:
            machine.undo_stores()
        cycles, remaining = max(x.drained for x in finished), max(len(numbers) - most, 0)
        if remaining:
            ends, at_once = sorted(x.end for x in finished), min(placement.slots_per_group, len(finished) - 1)
            cycles += remaining * (ends[-1] - ends[at_once - 1]) / (len(ends) - at_once)
        return Trial(simulation, finished, cycles, sum(self.survey.work[n] for n in numbers[:most]))

    def outcome(self, cycles: float, trials: list[Trial], recorder: Recorder) -> Timed:
        """Return the timing of the whole grid, scaled from the simulated clusters."""
        f = self.device.constants
        scale = sum(self.survey.work) / sum(trial.work for trial in trials)
        simulations = [trial.simulation for trial in trials]
        tensor = scale * sum(sm.tensor_busy for s in simulations for sm in s.sms)
        dram = scale * sum(s.memory.traffic.dram for s in simulations)
        l2 = scale * sum(s.memory.traffic.l2 for s in simulations)
        signals = [(trial.simulation.dependent.triggered, trial.cycles) for trial in trials]
        triggered = max(end if at is None else at for at, end in signals)
        return Timed(
            self.launch,
            cycles,
            simulations[0].dependent.awaited,
            min(triggered, cycles),
            self.placement,
            100 * tensor / (cycles * f.sm_count),
            100 * dram / (cycles * f.dram_read_gb_per_s * 1e3 / self.clock_mhz),
            100 * l2 / (cycles * f.l2_gb_per_s * 1e3 / self.clock_mhz),
            recorder,
            self.uniform,
            self.code is None or not belongs(self.launch.kernel.instructions, self.code),
        )


def share_instruction_cache(settings: Sequence[Setting]) -> None:
    """Tell each launch of a call how many code lines the others run."""
    lines = {setting.launch.name: len(setting.code_lines) for setting in settings}
    for setting in settings:
        setting.other_lines = sum(lines.values()) - lines[setting.launch.name]


def surveyed(launch: Launch) -> Survey | None:
    """Survey a launch's clusters; where time depends on data, execute one of them."""
    survey = Surveyor(launch).survey()
    if survey is None or not numbers_matter(launch.kernel):
        return survey
    clusters = list(launch.clusters())
    return replace(survey, slow_divisions=slow_divisions(launch, clusters[len(clusters) // 2]))


def time_launch(setting: Setting) -> Timed:
    """Time a launch by one group of SMs; uneven work: see `_uneven`."""
    placement, recorder = setting.placement, Recorder()
    if not setting.uniform:
        return check_possible(_uneven(setting), setting.device.constants.tma_shared_gain)
    numbers = range(0, placement.clusters, placement.groups)
    trial = setting.simulate(setting.machine(), recorder, numbers, _SIMULATED_PER_SLOT * placement.slots_per_group)
    return setting.outcome(trial.cycles, [trial], recorder)


def check_possible(timed: Timed, sharing_gain: float = 1.0) -> Timed:
    """Return the timing. Raises PtxError if it exceeds the device's limits.

    Then the surveyed clusters did not represent the others. L2 may deliver `sharing_gain` times its rate, if CTAs read
    equal bytes.
    """
    busiest = max(timed.tensor_percent, timed.dram_percent, timed.l2_percent / sharing_gain)
    if busiest > _IMPOSSIBLE:
        raise PtxError(
            f"kernel {timed.launch.name[:80]}: the work of its clusters varies in a way that the clock does not "
            f"follow (it would keep the GPU busy for {busiest:.0f} % of the time)"
        )
    return timed


def _uneven(setting: Setting) -> Timed:
    """Time a launch whose clusters differ in work.

    Clusters of large work, and of medium (or small) work, are simulated; the other times are interpolated by work.
    Clusters are assigned in grid order to the first free slot.
    """
    placement, work = setting.placement, setting.survey.work
    order = sorted(range(len(work)), key=lambda n: work[n])
    recorder, trials = Recorder(), list[Trial]()
    most = min(placement.slots_per_group, -(-placement.clusters // placement.groups))
    other = len(order) // 2 if work[order[len(order) // 2]] < _LARGE * work[order[-1]] else 0
    for middle in (len(order) - 1, other):
        first = max(min(middle - most // 2, len(order) - most), 0)
        numbers = order[first : first + most]
        trials.append(setting.simulate(setting.machine(), recorder if not trials else Recorder(False), numbers, most))
    (much, some), at = trials, [trial.work / len(trial.finished) for trial in trials]
    slope = max((much.last - some.last) / (at[0] - at[1]), 0.0) if at[0] > at[1] else 0.0
    times = [max(much.last + slope * (cluster - at[0]), 1.0) for cluster in work]
    alone = 1.0
    if most > 1:
        alone = setting.simulate(setting.machine(), Recorder(False), order[-1:], 1).last / much.last
    constants = setting.device.constants
    refill = constants.cta_interval_cycles + constants.cta_start_cycles
    cycles = dispatched(times, placement.groups, most, min(alone, 1.0), refill)
    return setting.outcome(cycles, trials, recorder)


def dispatched(times: Sequence[float], groups: int, slots: int, alone: float, refill: float) -> float:
    """Return when the last cluster ends, if each takes the first free slot.

    `times` are for clusters whose group is full. A cluster alone on its group takes `alone` of its time, one with a few
    others a value between. `refill` is the time between a cluster and the next in its slot.
    """
    queue, now = deque(times), 0.0
    remaining: list[list[float]] = [[] for _ in range(groups)]  # remaining times of each group's clusters
    changes = [0] * groups
    # Ties: first the ends of clusters (slot -1, with the group's change count),
    # then free slots, emptiest group first.
    calendar = [(0.0, slot, number, 0) for slot in range(slots) for number in range(groups)]
    while calendar:
        at, slot, number, change = heapq.heappop(calendar)
        group = remaining[number]
        if slot < 0:
            if change != changes[number]:
                continue
            now, first = at, min(group)
            rest = [time - first for time in group if time > first]
            for free in range(len(rest), len(group)):
                heapq.heappush(calendar, (at, free, number, 0))
            group[:] = rest
        elif queue:
            group.append(queue.popleft() + (refill if at else 0.0))
        if group:
            changes[number] += 1
            end = at + min(group) * _slowdown(len(group), slots, alone)
            heapq.heappush(calendar, (end, -1, number, changes[number]))
    return now


def _slowdown(resident: int, slots: int, alone: float) -> float:
    """Return a cluster's time with `resident` clusters, relative to a full group of `slots`."""
    return 1.0 if slots == 1 else alone + (1.0 - alone) * (resident - 1) / (slots - 1)


def time_in_full(setting: Setting, machine: TimedMachine) -> Timed:
    """Simulate every cluster of the grid, group after group."""
    recorder, trials, placement = Recorder(), list[Trial](), setting.placement
    for group in range(min(placement.groups, placement.clusters)):
        numbers = range(group, placement.clusters, placement.groups)
        trials.append(setting.simulate(machine, Recorder(False) if group else recorder, numbers, len(numbers)))
    return setting.outcome(max(trial.cycles for trial in trials), trials, recorder)
