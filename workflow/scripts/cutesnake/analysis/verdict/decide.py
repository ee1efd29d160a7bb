"""Name a winner from times per workload, by interval and the times' noise."""

from collections.abc import Mapping, Sequence
from numbers import Real
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from cutesnake.analysis.compare.insight import NOISE_PERCENT
from cutesnake.analysis.compare.noise import Time, apart, noise_of_ratio
from cutesnake.analysis.summary import DIGITS
from cutesnake.model import record
from cutesnake.model.records.common import Dsl
from cutesnake.model.records.verdict import Accuracy, Basis, Decision, Figure, Pairing, Rival, Side, Split

RESAMPLES = 4000
SEED = 35
INTERVAL = (2.5, 97.5)  # percentiles
LEAST_SPLIT = 3  # workloads: some parameter separates any two
MOST_BOUNDS = 2
LEAST_LEFT_OUT = 0.2  # of the workloads, by a condition that is worth naming
LEAST_WORKLOADS = 4  # for an interval: with fewer, a resample of one workload alone is too likely


def _brief(ratio: float) -> float:
    """Round as recorded summaries do, so that all pages show one value."""
    return float(record.rounded(ratio, DIGITS))


def pairing(workload: str, cute: Time, cutile: Time) -> Pairing:
    """Compare the fastest kernel of each DSL on a workload."""
    ratio, limit = cutile.us / cute.us, noise_of_ratio(cute, cutile)
    winner: Side | None = None if apart(ratio) <= limit else "cute" if ratio > 1 else "cutile"
    return Pairing(
        *(workload, cute.kernel, cute.variant, cute.us, cutile.kernel, cutile.variant, cutile.us),
        ratio=_brief(ratio),
        noise_percent=limit,
        winner=winner,
        samples=[one.samples for one in (cute, cutile) if one.samples],
        mhz=[one.mhz for one in (cute, cutile) if one.mhz],
        rested=cutile.rested_us / cute.rested_us if cute.rested_us and cutile.rested_us else None,
    )


def interval(ratios: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    """Return the 95 % bootstrap interval of workloads' geometric mean; None for too few."""
    if len(ratios) < LEAST_WORKLOADS:
        return None, None
    draw = np.random.default_rng(SEED)
    chosen = draw.integers(len(ratios), size=(RESAMPLES, len(ratios)))
    means = np.log(np.asarray(ratios))[chosen].mean(axis=1)
    low, high = np.exp(np.percentile(means, INTERVAL))
    return _brief(float(low)), _brief(float(high))


def judge(ratios: Sequence[float], wins: int, losses: int, limit: float) -> tuple[int, str]:
    """Return who wins (1 for ratios above 1, -1 below, 0 nobody) and the reason.

    A side wins if the geometric mean favours it by more than the noise, also without its best workload, if it wins most
    workloads beyond their noise, and if the bootstrap interval of the mean excludes 1.
    """
    mean = geometric_mean(ratios)
    if apart(mean) <= limit:
        return 0, "noise"
    side, mine = (1, wins) if mean > 1 else (-1, losses)
    if 2 * mine <= len(ratios):
        return 0, "majority"
    if decided_by(ratios, limit) is not None:
        return 0, "one_workload"
    low, high = interval(ratios)
    if low is not None and high is not None and low <= 1 <= high:
        return 0, "interval"
    return side, "agree"


def decide(
    figure: Figure,
    basis: Basis,
    pairs: Sequence[Pairing],
    accuracy: Accuracy | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> Decision | None:
    """Name the winner over workloads that both DSLs have timed; None without any.

    `parameters` by workload; without them, no split is looked for.
    """
    if not pairs:
        return None
    ratios = [pair.ratio for pair in pairs]
    won: dict[Side | None, list[str]] = {"cute": [], "cutile": [], None: []}
    for pair in pairs:
        won[pair.winner].append(pair.workload)
    limit = max(NOISE_PERCENT, median(pair.noise_percent for pair in pairs))
    side, reason = judge(ratios, len(won["cute"]), len(won["cutile"]), limit)
    low, high = interval(ratios)
    alone = decided_by(ratios, limit)
    least, most = (choose(pairs, key=lambda pair: pair.ratio) for choose in (min, max))
    return Decision(
        figure=figure,
        basis=basis,
        winner={1: "cute", -1: "cutile", 0: "depends"}[side],  # type: ignore[arg-type]
        reason=reason,  # type: ignore[arg-type]
        mean=_brief(geometric_mean(ratios)),
        low=low,
        high=high,
        least=least.ratio,
        least_at=least.workload,
        most=most.ratio,
        most_at=most.workload,
        noise_percent=limit,
        cute_wins=won["cute"],
        cutile_wins=won["cutile"],
        equal=won[None],
        decided_by=None if alone is None else pairs[alone].workload,
        pairs=list(pairs),
        split=separate({s: [parameters[name] for name in names] for s, names in won.items()})
        if parameters and not side
        else None,
        losses=_bounds([parameters[name] for name in won["cutile" if side == 1 else "cute"]], pairs, parameters)
        if parameters and side
        else [],
        accuracy=accuracy,
        dtypes=_per_dtype(pairs, parameters or {}),
    )


def _per_dtype(pairs: Sequence[Pairing], parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the mean ratio of each dtype, if the workloads have several."""
    ratios: dict[str, list[float]] = {}
    for pair in pairs:
        ratios.setdefault(str(parameters.get(pair.workload, {}).get("dtype")), []).append(pair.ratio)
    return {dtype: geometric_mean(some) for dtype, some in ratios.items()} if len(ratios) > 1 else {}


def _bounds(
    some: Sequence[Mapping[str, Any]], pairs: Sequence[Pairing], parameters: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Return conditions that some workloads meet and many others do not, the strictest first."""
    result: list[tuple[int, str]] = []
    for name in some[0] if some else ():
        values: list[Any] = [one.get(name) for one in some]
        every: list[Any] = [parameters[pair.workload].get(name) for pair in pairs]
        if len(set(values)) == 1:
            result.append((sum(value != values[0] for value in every), f"{name} = {values[0]}"))
        elif _numbers(every):
            result.append((sum(value > max(values) for value in every), f"{name} ≤ {max(values)}"))
            result.append((sum(value < min(values) for value in every), f"{name} ≥ {min(values)}"))
    result.sort(key=lambda one: -one[0])
    return [text for others, text in result if others >= LEAST_LEFT_OUT * len(pairs)][:MOST_BOUNDS]


def _numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(one, Real) and not isinstance(one, bool) for one in values)


def separate(won: Mapping[Side | None, Sequence[Mapping[str, Any]]]) -> Split | None:
    """Return the only parameter that separates the wins of each DSL from the other workloads.

    None if there is none, or several do. won: parameters of the workloads that each DSL wins; its key None stands for
    equal workloads.
    """
    sides = [won["cute"], won["cutile"], won[None]]
    if sum(map(bool, sides)) < 2 or sum(map(len, sides)) < LEAST_SPLIT:
        return None
    result = []
    for name in next(side for side in sides if side)[0]:
        cute, cutile, equal = ([one.get(name) for one in side] for side in sides)
        first = _condition(cute, [*cutile, *equal]) if cute else ""
        second = _condition(cutile, [*cute, *equal]) if cutile else ""
        if first is not None and second is not None:
            result.append(Split(name, first or None, second or None))
    return result[0] if len(result) == 1 else None


def _condition(values: Sequence[Any], others: Sequence[Any]) -> str | None:
    """Return a condition that all values and no others meet, or None."""
    if len(set(values)) == 1:
        return None if values[0] in others else f"= {values[0]}"
    if not _numbers([*values, *others]):
        return None
    if min(values) > max(others):
        return f"≥ {min(values)}"
    return f"≤ {max(values)}" if max(values) < min(others) else None


def decided_by(ratios: Sequence[float], limit: float) -> int | None:
    """Return the ratio without which the mean no longer favours its side."""
    if len(ratios) < 3:
        return None
    mean = geometric_mean(ratios)
    if apart(mean) <= limit:
        return None
    best = (max if mean > 1 else min)(range(len(ratios)), key=lambda place: ratios[place])
    rest = geometric_mean([ratio for place, ratio in enumerate(ratios) if place != best])
    return None if apart(rest) > limit and (rest > 1) == (mean > 1) else best


def best_rival(
    figure: Figure,
    dsls: Mapping[str, Dsl],
    both: Mapping[str, Mapping[Side, Time]],
    others: Mapping[str, Mapping[str, Time]],
) -> Rival | None:
    """Return the best kernel in neither DSL.

    `both` has the best time of each DSL per workload; `others` the times of other kernels, by kernel and workload.
    Kernels that share less than half as many workloads as the fullest one do not count.
    """
    result = []
    for kernel, times in others.items():
        shared = [
            (workload, times[workload], min(best.values(), key=lambda time: time.us))
            for workload, best in both.items()
            if workload in times
        ]
        if not shared:
            continue
        ratios = [theirs.us / mine.us for _, theirs, mine in shared]
        limits = [noise_of_ratio(theirs, mine) for _, theirs, mine in shared]
        clear = [
            (workload, ratio)
            for (workload, *_), ratio, limit in zip(shared, ratios, limits, strict=True)
            if apart(ratio) > limit
        ]
        faster = [workload for workload, ratio in clear if ratio < 1]
        slower = [workload for workload, ratio in clear if ratio > 1]
        limit = max(NOISE_PERCENT, median(limits))
        side, _ = judge(ratios, len(slower), len(faster), limit)
        low, high = interval(ratios)
        result.append(
            Rival(
                against=sorted({dsl for workload, *_ in shared for dsl in both[workload]}),
                figure=figure,
                kernel=kernel,
                dsl=dsls[kernel],
                mean=_brief(geometric_mean(ratios)),
                low=low,
                high=high,
                workloads=len(ratios),
                faster=faster,
                slower=slower,
                noise_percent=limit,
                beats_both=side == -1,
            )
        )
    most = max((rival.workloads for rival in result), default=0)
    return min((rival for rival in result if 2 * rival.workloads >= most), key=lambda rival: rival.mean, default=None)
