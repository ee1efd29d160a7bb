"""Typed facts of two kernels on one workload, which the rules of causes.py look at."""

from __future__ import annotations

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
    near: NcuMetrics | None = None  # of this workload, else of the profiled one with the nearest time
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

    def measured(self, source: Source, target: str, workload: str, kernel: str, variant: str, figure: Figure) -> Kernel:
        """Return the facts of a kernel that a GPU timed."""
        evidence = self._evidence
        path, timed = evidence.case(source, "timing", kernel, target, variant, workload) or ("", None)
        metrics = timed.metrics if timed else None
        if timed is None or metrics is None:
            raise KeyError(f"no timing record of {kernel}, {variant} and {workload}")
        near_source, near_workload, near = self._near(source, target, workload, kernel, variant, metrics.cold_us)
        same = near_workload and self._profile(near_source, target, near_workload, kernel, variant)
        main = near[1].main_kernel if near else None
        timeline = evidence.case(near_source, "nsys", kernel, target, variant, near_workload)
        seen = timeline[1].metrics if timeline else None
        return Kernel(
            kernel,
            variant,
            metrics.cold_us if figure == "cold" else metrics.hot_us,
            timed.case.variant.params,
            timing=metrics,
            timing_path=path,
            profiled=near is not None and (near_source, near_workload) == (source, workload),
            near=near[1] if near else None,
            near_path=near[0] if near else "",
            near_workload=near_workload,
            near_build=bool(same and near and same[0] == near[0]),
            near_gpu="" if near_source == source else (near_source.device or "").removeprefix("NVIDIA "),
            after_main_us=_after_main(seen.kernels) if seen else None,
            timeline_path=timeline[0] if timeline else "",
            **self._static(kernel, target, variant, main),
        )

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
            **self._static(kernel, target, variant, longest),
        )

    def _profile(
        self, source: Source, target: str, workload: str, kernel: str, variant: str
    ) -> tuple[str, NcuMetrics] | None:
        result = self._evidence.case(source, "ncu", kernel, target, variant, workload)
        return (result[0], result[1].metrics) if result and result[1].metrics else None

    def _near(
        self, source: Source, target: str, workload: str, kernel: str, variant: str, us: float
    ) -> tuple[Source, str, tuple[str, NcuMetrics] | None]:
        """Return the workload's profile, else the nearest one, preferring this GPU."""
        sources = [source, *(one for one in self._evidence.sources(target) if one != source)]
        for other in sources:
            if result := self._profile(other, target, workload, kernel, variant):
                return other, workload, result
        for other in sources:
            nearest, result = self._nearest(other, target, kernel, us)
            if result:
                return other, nearest, result
        return source, "", None

    def _nearest(
        self, source: Source, target: str, kernel: str, us: float
    ) -> tuple[str, tuple[str, NcuMetrics] | None]:
        """Return the profiled workload whose duration is nearest to a time, and its profile."""
        best: tuple[float, str, tuple[str, NcuMetrics]] | None = None
        for workload in self._evidence.plan.profiled:
            for variant in self._evidence.variants.get((kernel, target, workload), []):
                if result := self._profile(source, target, workload, kernel, variant):
                    far = abs(math.log(result[1].total_duration_us / us))
                    if best is None or far < best[0]:
                        best = (far, workload, result)
        return (best[1], best[2]) if best else ("", None)

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
    span = max(one.start_us + one.duration_us for one in call) - min(one.start_us for one in call)
    return span - max(one.duration_us for one in call)


def _of(functions: Iterable[Any], main: str | None, accepts: Callable[[Any], bool] = lambda one: True) -> Any:
    """Return the function with a symbol, else the first one."""
    every = list(functions)
    named = next((one for one in every if main and one.symbol == main), None)
    return named if named is not None and accepts(named) else every[0]
