"""Cases that both sides timed, in pairs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cutesnake.analysis.change.baseline import Before
from cutesnake.analysis.change.verdict import verdict
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.analysis.evidence.recorded_set import standing
from cutesnake.model.records.change import ChangedCase, Versions
from cutesnake.model.records.common import Record
from cutesnake.model.records.timing import Timing

Place = tuple[str, str, str, str]  # device, kernel, target, workload
Timed = dict[Place, dict[str, Timing]]  # place -> variant -> timing record


@dataclass(frozen=True)
class Times:
    """Timing records of both sides, limited to this experiment's cases."""

    before: Timed
    now: Timed
    live: frozenset[str]  # devices that this run measured on


def gather(evidence: Evidence, before: Before) -> Times:
    """Return the baseline's times and this run's, live ones first, then recorded."""
    now = _timed(evidence, evidence.recorded)
    live = _timed(evidence, evidence.measured)
    for place, variants in live.items():
        now[place] = {**now.get(place, {}), **variants}
    return Times(_timed(evidence, before), now, frozenset(place[0] for place in live))


def _timed(evidence: Evidence, records: Mapping[str, Record]) -> Timed:
    by_place: Timed = {}
    timed = [e for e in records.values() if isinstance(e, Timing) and e.status == "ok"]
    for entry in standing(timed, evidence.asked_of):
        case, device = entry.case, entry.device
        if device and (case.kernel, case.target) in evidence.decisions and case.workload in evidence.workloads:
            place = (device.name, case.kernel, case.target, case.workload)
            by_place.setdefault(place, {})[case.variant.id] = entry
    return by_place


def cases(times: Times) -> list[ChangedCase]:
    """Return a row per case that both sides timed on a device of one name.

    Variants are paired by name. Without a common variant, the fastest cold variants of both sides are paired.
    """
    return [
        _row(place, before, now)
        for place, variants in times.now.items()
        if place in times.before
        for before, now in _pairs(times.before[place], variants)
    ]


def _pairs(before: dict[str, Timing], now: dict[str, Timing]) -> list[tuple[Timing, Timing]]:
    shared = [(before[name], entry) for name, entry in now.items() if name in before]
    if shared:
        return shared
    first, second = (min(side.values(), key=_cold_us) for side in (before, now))
    return [(first, second)]


def _cold_us(entry: Timing) -> float:
    return entry.metrics.cold_us if entry.metrics else math.inf


def _row(place: Place, before: Timing, now: Timing) -> ChangedCase:
    """Return the row of a pair; `same` marks one measurement that both sides hold."""
    device, kernel, target, workload = place
    same = before.provenance.created == now.provenance.created
    assert before.metrics and now.metrics  # since both records are ok
    return ChangedCase(
        device=device,
        kernel=kernel,
        dsl=now.case.dsl,
        target=target,
        workload=workload,
        variant=now.case.variant.id,
        variant_before=before.case.variant.id,
        same=same,
        cold=None if same else verdict("cold", before.metrics, now.metrics),
        warm=None if same else verdict("warm", before.metrics, now.metrics),
    )


def conditions(times: Times) -> list[Versions]:
    """Return the drivers and packages that differ between paired measurements."""
    shared = [place for place in times.now if place in times.before]
    before, now = (
        _environment([entry for place in shared for entry in side[place].values()])
        for side in (times.before, times.now)
    )
    return [
        Versions(name, sorted(before.get(name, ())), sorted(now.get(name, ())))
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def _environment(entries: list[Timing]) -> dict[str, set[str]]:
    environment: dict[str, set[str]] = {}
    for entry in entries:
        versions = {"driver": entry.device and entry.device.driver, **entry.provenance.packages}
        for name, version in versions.items():
            if version:
                environment.setdefault(name, set()).add(version)
    return environment
