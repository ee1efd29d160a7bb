"""Verdicts of an operator from evidence and comparison: the package's entry point."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean

from msgspec.structs import replace

from cutesnake.analysis.compare.insight import NOISE_PERCENT
from cutesnake.analysis.compare.noise import Time, apart, noise, noise_of_ratio
from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.analysis.verdict import causes
from cutesnake.analysis.verdict.accuracy import accuracy
from cutesnake.analysis.verdict.authors import author
from cutesnake.analysis.verdict.clocks import power_limited, warm_slower
from cutesnake.analysis.verdict.cost import FETCHED, costs, spills, variants_offered, variants_timed
from cutesnake.analysis.verdict.decide import best_rival, decide, pairing
from cutesnake.analysis.verdict.facts import Contrast, Facts, Trial
from cutesnake.model import record
from cutesnake.model.contract import OWN
from cutesnake.model.dsls import COMPARED
from cutesnake.model.paths import ROOT
from cutesnake.model.records.anatomy import Anatomy
from cutesnake.model.records.common import Origin
from cutesnake.model.records.compare import Compare, KernelTime, TimesTable
from cutesnake.model.records.measurement import variant_id
from cutesnake.model.records.verdict import (
    Basis,
    Decision,
    Explained,
    Figure,
    Flag,
    Pairing,
    Rival,
    Side,
    TargetVerdict,
    Verdicts,
    WarmSlower,
)
from cutesnake.model.targets import TARGETS
from cutesnake.planning.devices import read_devices

FIGURES: tuple[Figure, ...] = ("warm", "cold")
SIDES: tuple[Side, ...] = ("cute", "cutile")
FEW = 3  # workloads: fewer get a flag
UNTUNED = 2  # times as many variants as were timed get a flag
UNEVEN = 2  # times as many variants of one DSL as of the other get a flag
SAME_HOST = 1.2  # ratio of empty-launch times above which two records are of different hosts
Times = dict[str, dict[str, Time]]  # workload -> kernel -> its fastest variant


def verdicts(
    evidence: Evidence, comparison: Compare, anatomy: Mapping[str, Anatomy] | None = None, fetched: Path = FETCHED
) -> Verdicts:
    """Return who wins on each GPU and why, and what each kernel costs.

    `anatomy` has the operator's anatomy records by path, `fetched` the folder of third-party packages; without them,
    causes and lines of code that need them are missing.
    """
    result = [one.verdict() for one in _contests(evidence, comparison.times, anatomy or {})]
    return Verdicts(
        evidence.operator,
        [one for one in result if one.warm or one.cold or one.warm_slower or one.rivals],
        costs(evidence, fetched, _shown(result)),
        causes.rules(),
    )


def _shown(decided: Iterable[TargetVerdict]) -> dict[str, Pairing]:
    """Return the pair with the largest difference on the first GPU, profiled first."""
    result: dict[str, Pairing] = {}
    for one in decided:
        profiled = {known.workload for known in one.explained if known.profiled and known.contest == "dsls"}
        pairs = [pair for decision in (one.warm or one.cold,) if decision for pair in decision.pairs]
        if pairs and one.target not in result:
            result[one.target] = max(pairs, key=lambda pair: (pair.workload in profiled, apart(pair.ratio)))
    return result


def winners(evidence: Evidence, times: Iterable[TimesTable]) -> list[TargetVerdict]:
    """Return the verdicts without pairs, causes and warm times above cold ones."""
    return [one for contest in _contests(evidence, times, {}) if (one := contest.brief())]


def read_anatomy(folder: str | Path) -> dict[str, Anatomy]:
    """Read an operator's anatomy records by path; none if it has no index."""
    index = Path(folder) / "anatomy.json"
    if not index.is_file():
        return {}
    paths = [Path(folder) / build.file for build in record.read("anatomy_index", index).builds]
    return {path.as_posix(): record.read("anatomy", path) for path in paths if path.is_file()}


def _contests(evidence: Evidence, times: Iterable[TimesTable], anatomy: Mapping[str, Anatomy]) -> list[_Contest]:
    """Return the GPUs with measured times, then the targets with predictions only."""
    facts = Facts(evidence, anatomy)
    measured = [_Measured(evidence, facts, table) for table in times]
    timed = {one.target for one in measured}
    targets = dict.fromkeys(target for _, target in evidence.decisions)
    return [*measured, *(_Predicted(evidence, facts, target) for target in targets if target not in timed)]


class _Contest:
    """Times of one target, and what follows from them."""

    basis: Basis
    processors: int | None
    gpu: str
    device: Origin

    def __init__(self, evidence: Evidence, facts: Facts, target: str) -> None:
        self.evidence, self.facts, self.target = evidence, facts, target
        self.decisions = {k: d for (k, where), d in evidence.decisions.items() if where == target}
        self.times: dict[Figure, Times] = {}

    def brief(self) -> TargetVerdict | None:
        """Return the verdict without pairs and causes; None if no kernel was timed."""
        decided = {figure: self._decide(figure) for figure in FIGURES}
        full = self._verdict(decided, [], [])
        short = {figure: one and replace(one, pairs=[]) for figure, one in decided.items()}
        flags = [replace(flag, evidence=[]) for flag in full.flags]
        brief = replace(full, warm=short["warm"], cold=short["cold"], flags=flags)
        return brief if brief.warm or brief.cold or brief.rivals else None

    def verdict(self) -> TargetVerdict:
        """Return everything about the target."""
        decided = {figure: self._decide(figure) for figure in FIGURES}
        return self._verdict(decided, self.warm_slower(), self._explained())

    def _verdict(
        self, decided: Mapping[Figure, Decision | None], warm_slower: list[WarmSlower], explained: list[Explained]
    ) -> TargetVerdict:
        return TargetVerdict(
            target=self.target,
            device=self.device,
            gpu=self.gpu,
            predicted=self.basis == "predicted",
            warm=decided["warm"],
            cold=decided["cold"],
            rivals=[rival for figure in FIGURES if (rival := self._rival(figure))],
            flags=list(self._flags([one for one in decided.values() if one])),
            warm_slower=warm_slower,
            times=self.timed(),
            highest_clock_mhz=self.highest_clock(),
            explained=explained,
        )

    def warm_slower(self) -> list[WarmSlower]:
        """Return nothing: a prediction has one clock."""
        return []

    def timed(self) -> int:
        """Return no number of measured times: no GPU ran."""
        return 0

    def highest_clock(self) -> float | None:
        """Return nothing: no GPU ran."""
        return None

    def contrast(self, figure: Figure, workload: str, fast: Time, slow: Time) -> Contrast:
        """Return the facts of two kernels on a workload."""
        raise NotImplementedError

    def _of(self, times: Mapping[str, Time], *dsls: str) -> list[Time]:
        return [time for kernel, time in times.items() if self.decisions[kernel].dsl in dsls]

    def _decide(self, figure: Figure) -> Decision | None:
        pairs = []
        for workload, times in self.times[figure].items():
            cute, cutile = (_fastest(self._of(times, dsl)) for dsl in ("cute", "cutile"))
            if cute and cutile:
                pairs.append(pairing(workload, cute, cutile))
        names = {kernel: one.dsl for (kernel, _), one in self.evidence.decisions.items()}
        known = accuracy(figure, self.evidence.operator, names) if self.basis == "predicted" else None
        return decide(figure, self.basis, pairs, known, self.evidence.workloads)

    def _rival(self, figure: Figure) -> Rival | None:
        both: dict[str, dict[Side, Time]] = {}
        for workload, times in self.times[figure].items():
            best = {dsl: result for dsl in SIDES if (result := _fastest(self._of(times, dsl)))}
            if best:
                both[workload] = best
        others: dict[str, dict[str, Time]] = {}
        for workload, times in self.times[figure].items():
            for kernel, time in times.items():
                if self.decisions[kernel].dsl not in COMPARED:
                    others.setdefault(kernel, {})[workload] = time
        return best_rival(figure, {k: d.dsl for k, d in self.decisions.items()}, both, others)

    def _explained(self) -> list[Explained]:
        result = []
        for figure in FIGURES:
            for workload, times in self.times[figure].items():
                for contest, one, other in self._contests(times):
                    fast, slow = sorted((one, other), key=lambda time: time.us)
                    percent, limit = apart(slow.us / fast.us), noise_of_ratio(fast, slow)
                    if percent <= (NOISE_PERCENT if self.basis == "predicted" else limit):
                        continue
                    contrast = dataclasses.replace(
                        self.contrast(figure, workload, fast, slow),
                        trials=self.trials(figure, workload, self._sides(contest, fast, slow)),
                    )
                    profiled = contrast.fast.profiled and contrast.slow.profiled
                    result.append(
                        Explained(
                            *(figure, self.basis, contest, workload, fast.kernel, slow.kernel, slow.us / fast.us),  # type: ignore[arg-type]
                            profiled=profiled,
                            causes=causes.causes(contrast),
                            ruled_out=causes.ruled_out(contrast),
                            clear=percent > limit,
                        )
                    )
        return sorted(result, key=lambda one: (one.contest != "dsls", not one.profiled, -one.ratio))

    def _sides(self, contest: str, fast: Time, slow: Time) -> dict[str, bool]:
        """Return kernel -> whether it is of the faster side, for both sides."""

        def side(kernel: str) -> str | bool:
            one = self.decisions[kernel]
            return one.dsl if contest == "dsls" else one.source == OWN

        first, second = side(fast.kernel), side(slow.kernel)
        dsls = {self.decisions[one.kernel].dsl for one in (fast, slow)}
        return {k: side(k) == first for k, d in self.decisions.items() if d.dsl in dsls and side(k) in (first, second)}

    def trials(self, figure: Figure, workload: str, sides: Mapping[str, bool]) -> list[Trial]:
        """Return nothing: no GPU ran."""
        return []

    def _contests(self, times: Mapping[str, Time]) -> Iterator[tuple[str, Time, Time]]:
        """Yield the best kernel of each DSL, then own against third-party per DSL."""
        cute, cutile = (_fastest(self._of(times, dsl)) for dsl in ("cute", "cutile"))
        if cute and cutile:
            yield "dsls", cute, cutile
        for dsl in COMPARED:
            every = self._of(times, dsl)
            own = _fastest([time for time in every if self.decisions[time.kernel].source == OWN])
            theirs = _fastest([time for time in every if self.decisions[time.kernel].source != OWN])
            if own and theirs:
                yield "authors", own, theirs

    def _flags(self, decided: list[Decision]) -> Iterator[Flag]:
        if not decided:
            return
        fewest = min(one.workloads for one in decided)
        if fewest < FEW:
            yield Flag("few_workloads", None, {"workloads": fewest}, [])
        for one in decided:
            if one.decided_by:
                yield Flag("one_workload_decides", None, {"workload": one.decided_by, "figure": one.figure}, [])
        used = {
            dsl: list(dict.fromkeys(getattr(pair, dsl) for one in decided for pair in one.pairs)) for dsl in COMPARED
        }
        how = "predicted" if self.basis == "predicted" else "timed"
        untuned = False
        for kernel in (*used["cute"], *used["cutile"]):
            least_most, files = spills(self.evidence, kernel, self.target)
            if least_most and least_most[1] >= causes.SPILLS:
                yield Flag("spills", kernel, {"least": least_most[0], "most": least_most[1]}, files)
            timed, offered = self.variants(kernel), variants_offered(self.evidence, kernel, self.target) or 0
            if UNTUNED * timed <= offered:
                untuned = True
                yield Flag("untuned", kernel, {"timed": timed, "offered": offered, "basis": how}, [])
        counts = {dsl: sum(map(self.variants, kernels)) for dsl, kernels in used.items()}
        if not untuned and max(counts.values()) >= UNEVEN * min(counts.values()):
            yield Flag("uneven_variants", None, {**counts, "basis": how}, [])
        names = {dsl: sorted({self._author(kernel) for kernel in kernels}) for dsl, kernels in used.items()}
        if names["cute"] != names["cutile"]:
            values = {dsl: ", ".join(result) for dsl, result in names.items()}
            yield Flag("different_authors", None, dict(values), ["kernels/authors.yaml"])
        yield from self.own_flags(decided)

    def own_flags(self, decided: list[Decision]) -> Iterator[Flag]:
        """Yield flags of measured or predicted times."""
        raise NotImplementedError

    def variants(self, kernel: str) -> int:
        """Return the most variants with a time of one workload."""
        return variants_timed(self.evidence, kernel, self.target)

    def _author(self, kernel: str) -> str:
        decision = self.decisions[kernel]
        result = author(self.evidence.operator, kernel, decision.dsl, decision.source)
        return f"{result.name}, {result.work}" + (f" ({result.versions} design versions)" if result.versions else "")


class _Measured(_Contest):
    """A GPU that timed kernels, this machine's or a recorded one."""

    def __init__(self, evidence: Evidence, facts: Facts, table: TimesTable) -> None:
        super().__init__(evidence, facts, table.target)
        self.device = table.device
        self.source = Source(self.device.kind, self.device.device)
        self.basis = "measured" if self.device.kind == "live" else "recorded"
        self.gpu = (self.device.device or "GPU").removeprefix("NVIDIA ")
        listed = read_devices(ROOT / "config/devices.yaml").find(self.device.device or "")
        self.processors = listed.sms if listed else None
        for figure in FIGURES:
            result = {
                row.workload: {k: self._time(figure, row.workload, k, one) for k, one in row.kernels.items()}
                for row in table.rows
            }
            self.times[figure] = {w: {k: t for k, t in row.items() if t} for w, row in result.items()}

    def _time(self, figure: Figure, workload: str, kernel: str, time: KernelTime) -> Time | None:
        variant, us = (time.cold_variant, time.cold_us) if figure == "cold" else (time.hot_variant, time.hot_us)
        result = self.evidence.case(self.source, "timing", kernel, self.target, variant, workload)
        if result is None or result[1].metrics is None:
            return None
        metrics, cold = result[1].metrics, figure == "cold"
        samples, mhz = (
            (metrics.samples, metrics.sm_clock_mhz) if cold else (metrics.hot_samples, metrics.hot_sm_clock_mhz)
        )
        rested, overhead = (None, metrics.empty_launch_us) if cold else (metrics.burst_us, None)
        return Time(kernel, variant, us, noise(figure, metrics), samples, mhz, rested, overhead)

    def contrast(self, figure: Figure, workload: str, fast: Time, slow: Time) -> Contrast:
        """Return the facts of two timed kernels."""
        sides = [(one.kernel, one.variant) for one in (fast, slow)]
        first, second = self.facts.measured(self.source, self.target, workload, sides, figure)
        return Contrast(figure, workload, self.evidence.workloads[workload], self.processors, first, second)

    def trials(self, figure: Figure, workload: str, sides: Mapping[str, bool]) -> list[Trial]:
        """Return all timed variants of some kernels, on every GPU of the target."""
        result = []
        for source in self.evidence.sources(self.target):
            gpu = "" if source == self.source else (source.device or "GPU").removeprefix("NVIDIA ")
            for path, entry in self.evidence.timings(source, self.target, workload):
                if entry.metrics and entry.case.kernel in sides:
                    us = entry.metrics.cold_us if figure == "cold" else entry.metrics.hot_us
                    case = entry.case
                    result.append(Trial(sides[case.kernel], case.kernel, case.variant.params, us, path, gpu))
        return result

    def warm_slower(self) -> list[WarmSlower]:
        """Return the workloads with a longer warm time."""
        return warm_slower(self.evidence, self.source, self.target)

    def timed(self) -> int:
        """Return the number of pairs of a cold and a warm time."""
        entries = self.evidence.records(self.source, "timing")
        return sum(one.metrics is not None and one.case.target == self.target for one in entries)

    def highest_clock(self) -> float | None:
        """Return the highest SM clock of all cold times."""
        entries = self.evidence.records(self.source, "timing")
        result = (one.metrics.sm_clock_mhz for one in entries if one.metrics and one.case.target == self.target)
        return max(result, default=None)

    def own_flags(self, decided: list[Decision]) -> Iterator[Flag]:
        """Yield what the records say of hosts and power."""
        apart_hosts, limited = 0, {"cute": 0, "cutile": 0}
        pairs = [pair for one in decided if one.figure == "warm" for pair in one.pairs]
        for pair in pairs:
            metrics = [
                entry[1].metrics
                for kernel, variant in ((pair.cute, pair.cute_variant), (pair.cutile, pair.cutile_variant))
                if (entry := self.evidence.case(self.source, "timing", kernel, self.target, variant, pair.workload))
                and entry[1].metrics
            ]
            for side, one in zip(limited, metrics, strict=False):
                limited[side] += power_limited(one)
            single = [one.empty_launch_us for one in metrics if one.empty_launch_us]
            apart_hosts += len(single) == 2 and max(single) > SAME_HOST * min(single)
        yield from self._other_variants(decided)
        if apart_hosts:
            yield Flag("different_hosts", None, {"workloads": apart_hosts}, [])
        if any(limited.values()):
            rested = [pair.rested for pair in pairs if pair.rested]
            known = {"rested": geometric_mean(rested)} if len(rested) == len(pairs) else {}
            yield Flag("power_limit", None, {**limited, "timed": len(pairs), **known}, [])

    def _other_variants(self, decided: list[Decision]) -> Iterator[Flag]:
        """Yield kernels whose fastest variant on another GPU was not timed here."""
        pairs = [pair for one in decided if one.figure == "warm" for pair in one.pairs]
        keys = dict.fromkeys((getattr(pair, dsl), pair.workload) for dsl in COMPARED for pair in pairs)
        own = self._variants(self.source)
        for source in self.evidence.sources(self.target):
            there = self._variants(source)
            fastest = {key: min(there[key], key=there[key].__getitem__) for key in keys if key in there}
            lacking = [key for key, variant in fastest.items() if variant not in own[key]]
            for kernel, count in Counter(kernel for kernel, _ in lacking).items():
                gpu = (source.device or "GPU").removeprefix("NVIDIA ")
                yield Flag("other_variants", kernel, {"workloads": count, "gpu": gpu}, [])

    def _variants(self, source: Source) -> dict[tuple[str, str], dict[str, float]]:
        """Return the warm times of all variants by kernel and workload."""
        result: dict[tuple[str, str], dict[str, float]] = {}
        for entry in self.evidence.records(source, "timing"):
            if entry.metrics and entry.case.target == self.target:
                key = entry.case.kernel, entry.case.workload
                result.setdefault(key, {})[variant_id(entry.case)] = entry.metrics.hot_us
        return result


class _Predicted(_Contest):
    """A target that no GPU timed, by predictions."""

    basis = "predicted"

    def __init__(self, evidence: Evidence, facts: Facts, target: str) -> None:
        super().__init__(evidence, facts, target)
        self.device = Origin("none", None, [], [])
        known = TARGETS.get(target)
        self.processors = known.simulated_processors if known else None
        self.gpu = (evidence.plan.predicted.devices or {}).get(target, target).upper()
        for figure in FIGURES:
            self.times[figure] = {}
            for workload in evidence.asked(target):
                result = {k: t for k in self.decisions if (t := self._time(figure, workload, k))}
                if result:
                    self.times[figure][workload] = result

    def _time(self, figure: Figure, workload: str, kernel: str) -> Time | None:
        best: Time | None = None
        for variant in self.evidence.foreseen(kernel, self.target, workload):
            result = self.evidence.prediction(kernel, self.target, variant, workload)
            metrics = result[1].metrics if result else None
            if metrics is None:
                continue
            us = metrics.cold_us if figure == "cold" else metrics.warm_us
            band = metrics.bands.cold if figure == "cold" else metrics.bands.warm
            if band.percent is not None and (best is None or us < best.us):
                best = Time(kernel, variant, us, band.percent)
        return best

    def contrast(self, figure: Figure, workload: str, fast: Time, slow: Time) -> Contrast:
        """Return the facts of two predicted kernels."""
        first, second = (
            self.facts.predicted(self.target, workload, one.kernel, one.variant, figure) for one in (fast, slow)
        )
        return Contrast(figure, workload, self.evidence.workloads[workload], self.processors, first, second)

    def variants(self, kernel: str) -> int:
        """Return the most variants that have a prediction for one workload."""
        keys = (key for key in self.evidence.variants if key[:2] == (kernel, self.target))
        return max((len(self.evidence.foreseen(*key)) for key in keys), default=0)

    def own_flags(self, decided: list[Decision]) -> Iterator[Flag]:
        """Yield that no such prediction was compared with a GPU."""
        yield Flag("not_on_this_gpu", None, {"target": self.target}, ["workflow/validation"])


def _fastest(times: list[Time]) -> Time | None:
    return min(times, key=lambda time: time.us, default=None)
