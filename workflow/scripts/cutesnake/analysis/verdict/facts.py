"""Typed facts of two kernels on one workload, which the rules of causes.py look at."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.model.records.anatomy import Anatomy, AnatomyFunction
from cutesnake.model.records.inspect import Function
from cutesnake.model.records.ncu import NcuMetrics
from cutesnake.model.records.nsys import Launched
from cutesnake.model.records.predict import PredictedLaunch, PredictMetrics
from cutesnake.model.records.timing import TimingMetrics
from cutesnake.model.records.verdict import Figure

MOST_FAR = 4.0  # times as long or as short as a call may be whose profile stands for another one's


@dataclass(frozen=True)
class Kernel:
    """What is known of a kernel's fastest variant on a workload; paths name the records."""

    name: str
    variant: str
    us: float  # by the figure of the contrast
    params: Mapping[str, Any] = field(default_factory=dict)  # of the variant
    timing: TimingMetrics | None = None
    timing_path: str = ""
    profiled: bool = False  # whether `near` is of this workload and GPU
    near: NcuMetrics | None = None  # of this workload, else of the nearest one that can stand for it
    near_path: str = ""
    near_workload: str = ""
    near_build: bool = False  # whether that profile is of the variant's build
    near_gpu: str = ""  # of that profile, where it is another GPU than the timed one
    after_main_us: float | None = None  # of a call beyond its longest kernel, by a timeline of that profile's workload
    timeline_path: str = ""
    function: Function | None = None  # static figures of the function that runs
    inspect_path: str = ""
    anatomy: AnatomyFunction | None = None
    anatomy_path: str = ""
    prediction: PredictMetrics | None = None
    predict_path: str = ""
    work: float | None = None  # simulated matrix FLOPs over the operator's, of the largest case: the least padding

    @property
    def launches(self) -> int | None:
        """Return the number of kernel launches of a call."""
        if self.timing:
            return self.timing.kernels_per_call
        return len(self.prediction.launches.cold) if self.prediction else None

    @property
    def cold_start_us(self) -> float | None:
        """Return by how much the cold time exceeds the warm one."""
        return self.timing.cold_us - self.timing.hot_us if self.timing else None

    def predicted(self, figure: Figure) -> list[PredictedLaunch]:
        """Return the predicted launches of a call."""
        if self.prediction is None:
            return []
        return self.prediction.launches.cold if figure == "cold" else self.prediction.launches.warm


@dataclass(frozen=True)
class Profile:
    """A profile by ncu, of a variant; empty if there is none."""

    variant: str = ""
    path: str = ""
    metrics: NcuMetrics | None = None


@dataclass(frozen=True)
class Trial:
    """A variant that a GPU timed on the workload of a contrast."""

    fast: bool  # of the faster side: its DSL, or its author if both sides are of one DSL
    kernel: str
    params: Mapping[str, Any]
    us: float  # by the figure of the contrast
    path: str
    gpu: str = ""  # where it is another GPU than the contrast's


@dataclass(frozen=True)
class Contrast:
    """Two kernels on a workload, of which one is faster beyond the noise."""

    figure: Figure
    workload: str
    parameters: Mapping[str, Any]
    processors: int | None  # multiprocessors of the GPU
    fast: Kernel
    slow: Kernel
    trials: Sequence[Trial] = ()  # of both sides, on every GPU of the target

    @property
    def gap_us(self) -> float:
        """Return the difference in time."""
        return self.slow.us - self.fast.us


class Facts:
    """Collects facts of kernels from the records of an operator."""

    def __init__(self, evidence: Evidence, anatomy: Mapping[str, Anatomy]) -> None:
        """Index the anatomy records by kernel, target and variant."""
        self._evidence = evidence
        self._anatomy = {
            (entry.kernel, entry.target, entry.variant.id): (path, entry)
            for path, entry in anatomy.items()
            if entry.status == "ok" and entry.functions
        }

    def measured(
        self, source: Source, target: str, workload: str, sides: Sequence[tuple[str, str]], figure: Figure
    ) -> list[Kernel]:
        """Return the facts of timed kernels, given as (kernel, variant), fastest first."""
        timed = [self._timed(source, target, workload, *side) for side in sides]
        near_source, near_workload, near = self._near(source, target, workload, timed)
        result = []
        for (path, entry), profile in zip(timed, near, strict=True):
            kernel, variant = entry.case.kernel, entry.case.variant.id
            timeline = self._evidence.case(near_source, "nsys", kernel, target, profile.variant, near_workload)
            seen = timeline[1].metrics if timeline else None
            result.append(
                Kernel(
                    kernel,
                    variant,
                    entry.metrics.cold_us if figure == "cold" else entry.metrics.hot_us,
                    entry.case.variant.params,
                    timing=entry.metrics,
                    timing_path=path,
                    profiled=profile.metrics is not None and (near_source, near_workload) == (source, workload),
                    near=profile.metrics,
                    near_path=profile.path,
                    near_workload=near_workload,
                    near_build=profile.variant == variant,
                    near_gpu="" if near_source == source else (near_source.device or "").removeprefix("NVIDIA "),
                    after_main_us=_after_main(seen.kernels) if seen else None,
                    timeline_path=timeline[0] if timeline else "",
                    **self._static(kernel, target, variant, profile.metrics.main_kernel if profile.metrics else None),
                )
            )
        return result

    def _timed(self, source: Source, target: str, workload: str, kernel: str, variant: str) -> tuple[str, Any]:
        path, entry = self._evidence.case(source, "timing", kernel, target, variant, workload) or ("", None)
        if entry is None or entry.metrics is None:
            raise KeyError(f"no timing record of {kernel}, {variant} and {workload}")
        return path, entry

    def predicted(self, target: str, workload: str, kernel: str, variant: str, figure: Figure) -> Kernel:
        """Return the facts of a kernel whose time was predicted."""
        result = self._evidence.prediction(kernel, target, variant, workload)
        if result is None or result[1].metrics is None:
            raise KeyError(f"no prediction of {kernel}, {variant} and {workload}")
        metrics = result[1].metrics
        launches = metrics.launches.cold
        longest = max(launches, key=lambda one: one.end_us - one.start_us).name if launches else None
        return Kernel(
            kernel,
            variant,
            metrics.cold_us if figure == "cold" else metrics.warm_us,
            result[1].case.variant.params,
            prediction=metrics,
            predict_path=result[0],
            work=self._work(kernel, target, variant),
            **self._static(kernel, target, variant, longest),
        )

    def _near(
        self, source: Source, target: str, workload: str, timed: Sequence[tuple[str, Any]]
    ) -> tuple[Source, str, list[Profile]]:
        """Return the workload's profiles, else the nearest that stand for them.

        All kernels must have one; this GPU is preferred. Of another workload, a call must launch as many kernels, take
        at most MOST_FAR times as long or as short, and the order of the times must be the same.
        """
        sources = [source, *(one for one in self._evidence.sources(target) if one != source)]
        for other in sources:
            own = [self._profile(other, target, workload, one.case.kernel, one.case.variant.id) for _, one in timed]
            if all(one.metrics for one in own):
                return other, workload, own
        for other in sources:
            best: tuple[float, str, list[Profile]] | None = None
            for place in self._evidence.plan.profiled:
                every = [self._standing_for(other, target, place, one) for _, one in timed]
                totals = [one.metrics.total_duration_us for one in every if one.metrics]
                if len(totals) < len(timed) or totals != sorted(totals):
                    continue
                apart = [abs(math.log(us / one.metrics.cold_us)) for us, (_, one) in zip(totals, timed, strict=True)]
                if max(apart) <= math.log(MOST_FAR) and (best is None or sum(apart) < best[0]):
                    best = (sum(apart), place, every)
            if best:
                return other, *best[1:]
        return source, "", [Profile()] * len(timed)

    def _work(self, kernel: str, target: str, variant: str) -> float | None:
        """Return a build's simulated matrix FLOPs over the operator's, of its largest case."""
        built = self._evidence.standing_for(kernel, target, variant)
        counted = [
            (simulated.cost.flops, sum(launch.mma_flops or 0 for launch in simulated.launches))
            for _, entry in self._evidence.cases("correctness", kernel, target)
            if entry.case.variant.id == built and entry.metrics and (simulated := entry.metrics.simulated)
        ]
        needed, done = max(counted, default=(0, 0))
        return done / needed if needed and done else None

    def _profile(self, source: Source, target: str, workload: str, kernel: str, variant: str) -> Profile:
        result = self._evidence.case(source, "ncu", kernel, target, variant, workload)
        return Profile(variant, result[0], result[1].metrics) if result and result[1].metrics else Profile()

    def _standing_for(self, source: Source, target: str, workload: str, timed: Any) -> Profile:
        """Return a kernel's profile on another workload, with as many launches a call."""
        variants = self._evidence.variants.get((timed.case.kernel, target, workload), [])
        every = (self._profile(source, target, workload, timed.case.kernel, variant) for variant in variants)
        launches = timed.metrics.kernels_per_call
        return next((one for one in every if one.metrics and len(one.metrics.kernels) == launches), Profile())

    def _static(self, kernel: str, target: str, variant: str, main: str | None) -> dict[str, Any]:
        built = self._evidence.standing_for(kernel, target, variant)
        inspected = self._evidence.inspect(kernel, target, built)
        anatomy = self._anatomy.get((kernel, target, built))
        return {
            "function": _of(inspected[1].functions, main) if inspected else None,
            "inspect_path": inspected[0] if inspected else "",
            "anatomy": _of(anatomy[1].functions, main, lambda one: bool(one.roles)) if anatomy else None,
            "anatomy_path": anatomy[0] if anatomy else "",
        }


def _after_main(kernels: Sequence[Launched]) -> float:
    """Return the time of the last shown call beyond its longest kernel."""
    call = [one for one in kernels if one.call == kernels[-1].call]
    span = max(one.end_us for one in call) - min(one.start_us for one in call)
    return span - max(one.duration_us for one in call)


def _of(functions: Iterable[Any], main: str | None, accepts: Callable[[Any], bool] = lambda one: True) -> Any:
    """Return the function with a symbol, else the first one."""
    every = list(functions)
    named = next((one for one in every if main and one.symbol == main), None)
    return named if named is not None and accepts(named) else every[0]
