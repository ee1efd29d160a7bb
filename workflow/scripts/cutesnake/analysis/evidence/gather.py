"""Evidence of one operator: plan and records, indexed, with reasons for missing data."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

from cutesnake.analysis.evidence import recorded_set
from cutesnake.model import kept_builds, record
from cutesnake.model.case_id import CaseId
from cutesnake.model.records.anatomy import Anatomy
from cutesnake.model.records.autotune import Autotune
from cutesnake.model.records.batch import Batch
from cutesnake.model.records.common import Choice, Origin, Record
from cutesnake.model.records.compile import Compile
from cutesnake.model.records.correctness import Correctness
from cutesnake.model.records.inspect import Inspect
from cutesnake.model.records.measurement import CaseRecord, Measurement, device_name, variant_id
from cutesnake.model.records.ncu import Ncu
from cutesnake.model.records.nsys import Nsys
from cutesnake.model.records.plan import Decision, Plan
from cutesnake.model.records.predict import Predict
from cutesnake.model.records.roofline import RooflineRow
from cutesnake.model.records.timing import Timing

R = TypeVar("R", bound=Record)


def read_records(paths: Iterable[str | Path]) -> dict[str, Record]:
    """Read records of any stage, each checked against its type, by path.

    A batch record is replaced by the records that it names. Raises RecordError for a damaged one.
    """
    records: dict[str, Record] = {}
    for path in paths:
        entry = record.read_any(path)
        if isinstance(entry, Batch):
            records |= read_records(entry.records)
        else:
            records[Path(path).as_posix()] = entry
    return records


@dataclass(frozen=True)
class Source:
    """Origin of measurements: this machine (`live`), a committed set (`recorded`) or `none`."""

    kind: Literal["live", "recorded", "none"]
    device: str | None = None


@dataclass(frozen=True)
class Evidence:
    """Plan, roofline rows, and records by path, of one operator.

    `plan` is results/plan/<operator>.json. `roofline` has a row per workload and device.
    """

    plan: Plan
    builds: Mapping[str, Compile] = field(default_factory=dict)
    inspected: Mapping[str, Inspect] = field(default_factory=dict)
    roofline: list[RooflineRow] = field(default_factory=list)
    measured: Mapping[str, Measurement] = field(default_factory=dict)
    recorded: Mapping[str, Measurement] = field(default_factory=dict)
    predicted: Mapping[str, Predict] = field(default_factory=dict)
    anatomy: Mapping[str, Anatomy] = field(default_factory=dict)

    @property
    def operator(self) -> str:
        """Name of the operator."""
        return self.plan.operator

    @cached_property
    def decisions(self) -> dict[tuple[str, str], Decision]:
        """(kernel, target) -> decision, in the order of the plan."""
        return {(d.kernel, d.target): d for d in self.plan.decisions}

    @property
    def workloads(self) -> dict[str, dict[str, Any]]:
        """Workload -> its parameters."""
        return self.plan.workloads

    def asked(self, target: str) -> list[str]:
        """Return the workloads whose dtype the configuration selects for a target."""
        dtypes = self.plan.dtypes[target]
        return [workload for workload, parameters in self.workloads.items() if parameters["dtype"] in dtypes]

    @cached_property
    def variants(self) -> dict[tuple[str, str, str], list[str]]:
        """(kernel, target, workload) -> planned variants, the default first."""
        variants: dict[tuple[str, str, str], list[str]] = {}
        for case in self.plan.cases:
            build = CaseId.parse(case.build)
            variants.setdefault((build.kernel, build.target, case.workload), []).append(build.variant)
        return variants

    def asked_of(self, case: Choice) -> list[str]:
        """Return the planned variants of a record's case."""
        return self.variants.get((case.kernel, case.target, case.workload), [])

    def standing(self, records: Mapping[str, Measurement]) -> dict[str, Measurement]:
        """Return the current recorded rows for this plan (`recorded_set.standing`)."""
        kept = {id(entry) for entry in recorded_set.standing(records.values(), self.asked_of)}
        return {path: entry for path, entry in records.items() if id(entry) in kept}

    @cached_property
    def served(self) -> Counter[tuple[str, str, str | None]]:
        """(kernel, target, variant) -> number of planned workloads."""
        return Counter(
            (kernel, target, variant)
            for (kernel, target, _), variants in self.variants.items()
            for variant in dict.fromkeys(variants)
        )

    @cached_property
    def unsupported(self) -> dict[tuple[str, str], str]:
        """(kernel, workload) -> why the kernel cannot compute it."""
        return {(u.kernel, u.workload): u.reason for u in self.plan.unsupported}

    @cached_property
    def _builds(self) -> dict[tuple[str, str, str], tuple[str, Compile]]:
        return {_build_key(r): (path, r) for path, r in self.builds.items()}

    @cached_property
    def _inspected(self) -> dict[tuple[str, str, str], tuple[str, Inspect]]:
        return {_build_key(r): (path, r) for path, r in self.inspected.items()}

    @cached_property
    def _cases(self) -> dict[tuple[Source, str, tuple[str, str, str, str]], tuple[str, Measurement]]:
        cases: dict[tuple[Source, str, tuple[str, str, str, str]], tuple[str, Measurement]] = {}
        for path, entry in self.recorded.items():
            cases[Source("recorded", device_name(entry)), entry.stage, _case_key(entry)] = (path, entry)
        for path, entry in self.measured.items():
            cases[Source("live", device_name(entry)), entry.stage, _case_key(entry)] = (path, entry)
        return cases

    def build(self, kernel: str, target: str, variant: str) -> tuple[str, Compile] | None:
        """Return path and record of a build, or None."""
        return self._builds.get((kernel, target, variant))

    def standing_for(self, kernel: str, target: str, variant: str) -> str:
        """Return the variant that is built instead, or the variant itself."""
        stand_in = (self.plan.stand_ins or {}).get(f"{self.operator}/{kernel}/{target}/{variant}")
        return CaseId.parse(stand_in).variant if stand_in else variant

    def inspect(self, kernel: str, target: str, variant: str) -> tuple[str, Inspect] | None:
        """Return path and record of a build's static values, or None without functions."""
        entry = self._inspected.get((kernel, target, variant))
        return entry if entry and entry[1].status == "ok" and entry[1].functions else None

    @overload
    def case(
        self, source: Source, stage: Literal["timing"], kernel: str, target: str, variant: str, workload: str
    ) -> tuple[str, Timing] | None: ...
    @overload
    def case(
        self, source: Source, stage: Literal["nsys"], kernel: str, target: str, variant: str, workload: str
    ) -> tuple[str, Nsys] | None: ...
    @overload
    def case(
        self, source: Source, stage: Literal["ncu"], kernel: str, target: str, variant: str, workload: str
    ) -> tuple[str, Ncu] | None: ...
    @overload
    def case(
        self, source: Source, stage: str, kernel: str, target: str, variant: str, workload: str
    ) -> tuple[str, Measurement] | None: ...

    def case(self, source: Source, stage: str, kernel: str, target: str, variant: str, workload: str) -> Any:
        """Return path and record of a case's measurement, or None."""
        return self._cases.get((source, stage, (kernel, target, variant, workload)))

    @cached_property
    def _foreseen(self) -> dict[tuple[str, str, str, str], tuple[str, Predict]]:
        return {_case_key(entry): (path, entry) for path, entry in self.predicted.items()}

    def prediction(self, kernel: str, target: str, variant: str, workload: str) -> tuple[str, Predict] | None:
        """Return path and record of a case's successful prediction, or None."""
        entry = self._foreseen.get((kernel, target, variant, workload))
        return entry if entry and entry[1].status == "ok" else None

    def why_not_predicted(self, kernel: str, target: str, variant: str, workload: str) -> str | None:
        """Return why a case's prediction failed, or None."""
        entry = self._foreseen.get((kernel, target, variant, workload))
        return first_line(entry[1].reason) if entry and entry[1].status != "ok" else None

    def foreseen(self, kernel: str, target: str, workload: str) -> dict[str, float]:
        """Return variant -> predicted cold µs, the shortest first."""
        variants = self.variants.get((kernel, target, workload), [])
        predictions = (
            (variant, self.prediction(kernel, target, variant, workload)) for variant in dict.fromkeys(variants)
        )
        times = {variant: entry[1].metrics.cold_us for variant, entry in predictions if entry and entry[1].metrics}
        return dict(sorted(times.items(), key=lambda item: item[1]))

    @overload
    def cases(self, stage: Literal["correctness"], kernel: str, target: str) -> Iterator[tuple[str, Correctness]]: ...
    @overload
    def cases(self, stage: str, kernel: str, target: str) -> Iterator[tuple[str, Measurement]]: ...

    def cases(self, stage: str, kernel: str, target: str) -> Iterator[tuple[str, Any]]:
        """Yield this machine's records of a stage, kernel and target, GPU or simulated."""
        for (source, name, key), entry in self._cases.items():
            if source.kind == "live" and name == stage and key[:2] == (kernel, target):
                yield entry

    @overload
    def records(self, source: Source, stage: Literal["timing"]) -> Iterator[Timing]: ...
    @overload
    def records(self, source: Source, stage: Literal["nsys"]) -> Iterator[Nsys]: ...
    @overload
    def records(self, source: Source, stage: Literal["ncu"]) -> Iterator[Ncu]: ...
    @overload
    def records(self, source: Source, stage: Literal["autotune"]) -> Iterator[Autotune]: ...

    def records(self, source: Source, stage: str) -> Iterator[Any]:
        """Yield successful records of a stage and source, of planned kernels only."""
        for (origin, name, key), (_, entry) in self._cases.items():
            if (origin, name) == (source, stage) and entry.status == "ok" and key[:2] in self.decisions:
                yield entry

    @cached_property
    def _timings(self) -> dict[tuple[Source, str, str], list[tuple[str, Timing]]]:
        result: dict[tuple[Source, str, str], list[tuple[str, Timing]]] = {}
        for (source, _, key), (path, entry) in self._cases.items():
            if isinstance(entry, Timing) and entry.status == "ok":
                result.setdefault((source, key[1], key[3]), []).append((path, entry))
        return result

    def timings(self, source: Source, target: str, workload: str) -> list[tuple[str, Timing]]:
        """Return path and record of all times of a workload, planned variants or not."""
        return self._timings.get((source, target, workload), [])

    def sources(self, target: str) -> list[Source]:
        """Return a target's sources of measurements or `none`, this machine's first."""
        counts = self._counts.get(target, Counter())
        return sorted(counts, key=lambda s: (s.kind != "live", -counts[s], s.device or "")) or [Source("none")]

    @cached_property
    def _counts(self) -> dict[str, Counter[Source]]:
        """Target -> number of timings and profiles per source."""
        counts: dict[str, Counter[Source]] = {}
        for source, stage, key in self._cases:
            if stage in ("timing", "ncu"):
                counts.setdefault(key[1], Counter())[source] += 1
        return counts

    @cached_property
    def _made(self) -> dict[tuple[Source, str], dict[str, str | None]]:
        """(source, stage) -> creation time and commit of its records of planned kernels."""
        made: dict[tuple[Source, str], dict[str, str | None]] = {}
        for (source, stage, key), (_, entry) in self._cases.items():
            if key[:2] in self.decisions:
                made.setdefault((source, stage), {})[entry.provenance.created] = entry.provenance.commit
        return made

    def label(self, source: Source, *stages: str) -> Origin:
        """Return a source with first and last day, and commits, of some stages."""
        made = {when: at for stage in stages for when, at in self._made.get((source, stage), {}).items()}
        days = sorted({when[:10] for when in made})
        commits = list(dict.fromkeys(commit for _, commit in sorted(made.items()) if commit))
        return Origin(source.kind, source.device, [days[0], days[-1]] if days else [], commits)

    @cached_property
    def _floors(self) -> dict[str, list[RooflineRow]]:
        """Workload -> its rows of the roofline."""
        floors: dict[str, list[RooflineRow]] = {}
        for row in self.roofline:
            floors.setdefault(row.workload, []).append(row)
        return floors

    def floor(self, workload: str, target: str, device: str | None) -> RooflineRow | None:
        """Return a workload's roofline row on `device`, else the smallest among the target's."""
        rows = self._floors.get(workload, [])
        if device:
            return next((row for row in rows if any(re.fullmatch(name, device) for name in row.match)), None)
        fitting = [row for row in rows if row.target == target and row.floor_us is not None]
        return min(fitting, key=lambda row: row.floor_us or 0.0, default=None)

    @property
    def not_built(self) -> str:
        """Return why a planned build has no record."""
        return self.plan.not_built or "not built yet: no build record"

    def why_no_build(self, kernel: str, target: str, variant: str | None) -> str | None:
        """Return why no usable build, own or stand-in, exists, or None."""
        decision = self.decisions.get((kernel, target))
        if decision is None:
            return f"{kernel} is not part of this experiment for {target}"
        if not decision.build.ok:
            return decision.build.reason
        build = self.build(kernel, target, self.standing_for(kernel, target, variant)) if variant else None
        if build is None:
            return self.not_built
        if build[1].status != "ok":
            return f"did not compile: {first_line(build[1].reason)}"
        return None

    def why_no_case(self, source: Source, stage: str, kernel: str, target: str, workload: str) -> str:
        """Return why a case has no measurement of a stage."""
        if reason := self.unsupported.get((kernel, workload)):
            return reason
        variant = next(iter(self.variants.get((kernel, target, workload), [])), None)
        if source.kind == "recorded":
            return f"not in the set recorded on {source.device}"
        if reason := self.why_no_build(kernel, target, variant):
            return reason
        decision = self.decisions[kernel, target]
        if not decision.run.ok:
            return decision.run.reason or ""
        planned = next((s for s in self.plan.stages if s.stage == stage), None)
        if planned and not planned.ok:
            return planned.reason or ""
        if stage in ("nsys", "ncu") and workload not in self.plan.profiled:
            return "the configuration does not profile this workload"
        return f"not measured yet: no {stage} record"


def load_evidence(
    plan: str | Path,
    records: Iterable[str | Path],
    roofline: str | Path,
    recorded_files: Iterable[str | Path] = (),
    kept_files: Iterable[str | Path] = (),
) -> Evidence:
    """Load an operator's plan, records, roofline, recorded files and kept builds.

    Raises RecordError, RecordedError or RecordedBuildsError for a damaged file.
    """
    planned = record.read("plan", plan)
    entries = read_records(records)
    for file in kept_files:
        entries |= kept_builds.read_records(Path(file), planned.recorded_builds or {})

    def of(kind: type[R]) -> dict[str, R]:
        return {path: entry for path, entry in entries.items() if isinstance(entry, kind)}

    measured = {path: entry for path, entry in entries.items() if isinstance(entry, Measurement)}
    rows = record.read("roofline", roofline).rows
    evidence = Evidence(planned, of(Compile), of(Inspect), rows, measured, predicted=of(Predict), anatomy=of(Anatomy))
    return replace(evidence, recorded=evidence.standing(recorded_set.read_recorded(recorded_files)))


def first_line(text: str | None) -> str:
    """Return the first non-empty line of a message, at most 300 characters."""
    line = next((line.strip() for line in (text or "").splitlines() if line.strip()), "no reason given")
    return line if len(line) <= 300 else line[:299] + "…"


def _build_key(entry: Compile | Inspect) -> tuple[str, str, str]:
    return entry.kernel, entry.target, entry.variant.id


def _case_key(entry: CaseRecord) -> tuple[str, str, str, str]:
    case = entry.case
    return case.kernel, case.target, variant_id(case), case.workload
