"""Rules that name, from typed facts, the cause of a difference between kernels."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from cutesnake.analysis.verdict import sentences
from cutesnake.analysis.verdict.facts import Contrast, Kernel, Trial
from cutesnake.model.records.anatomy import AnatomyFunction, Role
from cutesnake.model.records.ncu import NcuMetrics
from cutesnake.model.records.predict import PredictedLaunch, PredictMetrics
from cutesnake.model.records.verdict import Cause, CauseRule, Figure

Numbers = dict[str, int | float | str]
LEAST_SHARE = 0.1  # of the difference, for a rule that can tell its share
KEPT_SHARE = 0.5  # of the difference, left with equal tiles, from which on the tile is no cause
WHOLE = 1.0  # of the difference, left with equal tiles of other kernels, from which on the tile is no cause
UNKNOWN_SHARE = 20.0  # percent: a cause of a smaller known share comes after unknown shares
LEAST_CLOCKS = 1.02  # ratio of two clocks that counts
SPILLS = 64  # bytes per thread
SYMBOL = 24  # characters of a device function's symbol that evidence names
ONE_SIZE = (None, "even", "full")  # values of `sizes` of a workload whose products have one size
ISSUING = (
    "selected",
    "not_selected",
    "wait",
    "math_pipe_throttle",
    "dispatch_stall",
)  # stalls of warps with work to do
WAITING = ("long_scoreboard", "short_scoreboard", "wait")  # stalls of warps that wait for memory or earlier results
MORE_WORK = 1.1  # times the matrix FLOPs that count as more
HALF_ROWS = 64  # of a tcgen05 product of one CTA, which fill half of the lanes of tensor memory
BUSY = 60.0  # percent of a peak from which on a resource counts as the bound


@dataclass(frozen=True)
class Fired:
    """Numbers of a rule that fired, their records, and its share if known."""

    numbers: Numbers
    evidence: list[str]
    share: float | None = None
    kind: str = "timed"  # which difference the share is of: timed, profiled or predicted; most: at most, of the timed
    sentence: str | None = None  # name of another sentence than the rule's


@dataclass(frozen=True)
class Rule:
    """A rule: its condition in words, and the function that tests it."""

    id: str
    condition: str
    test: Callable[[Contrast], Fired | None]
    refuted: str | None = None  # the rule that refutes it


def causes(contrast: Contrast) -> list[Cause]:
    """Return rules that fire and are not refuted, by share (unknown: UNKNOWN_SHARE)."""
    against = {cause.rule for cause in _fired(REFUTATIONS, contrast)}
    doubted = {cause.rule: cause for cause in _fired(DOUBTS, contrast)}
    refuted_by = {rule.id: rule.refuted for rule in RULES}
    return sorted(
        (
            _with_doubt(cause, doubted.get(refuted_by[cause.rule] or ""))
            for cause in _fired(RULES, contrast)
            if refuted_by[cause.rule] not in against
        ),
        key=lambda cause: -(UNKNOWN_SHARE if cause.share_percent is None else cause.share_percent),
    )


def _with_doubt(cause: Cause, doubt: Cause | None) -> Cause:
    """Add what weakens a cause without refuting it."""
    return replace(cause, evidence=[*cause.evidence, *doubt.evidence], doubt=doubt.sentence) if doubt else cause


def ruled_out(contrast: Contrast) -> list[Cause]:
    """Return what refutes a cause, or else what both kernels have in common."""
    named = {cause.rule for cause in _fired(RULES, contrast)}
    against = {rule.refuted for rule in RULES if rule.id in named}
    out = [cause for cause in _fired(REFUTATIONS, contrast) if cause.rule in against]
    return out or ([] if named else _fired(COMMON, contrast))


def _fired(rules: Iterable[Rule], contrast: Contrast) -> list[Cause]:
    result = []
    for rule in rules:
        fired = rule.test(contrast)
        if fired is None:
            continue
        names = {"fast": contrast.fast.name, "slow": contrast.slow.name}
        share = None if fired.share is None else 100 * min(fired.share, 1.0)
        text = [sentences.cause(fired.sentence or rule.id, names | fired.numbers)]
        text += [] if share is None else [sentences.share(share, fired.kind)]
        used = [k for k in (contrast.fast, contrast.slow) if k.near_path and _used(k.near_path, fired)]
        other = {k.near_workload for k in used} - {contrast.workload, fired.numbers.get("profiled")}
        gpus = {k.near_gpu for k in used} - {""}
        text += [sentences.elsewhere(sorted(other), sorted(gpus))] if other or gpus else []
        evidence = [path for path in fired.evidence if path]
        result.append(Cause(rule.id, " ".join(text), evidence, fired.numbers, share))
    return result


def rules() -> list[CauseRule]:
    """Return the rules and their conditions."""
    return [CauseRule(rule.id, rule.condition) for rule in (*RULES, *REFUTATIONS, *COMMON)]


def _used(path: str, fired: Fired) -> bool:
    return any(one.startswith(path) for one in fired.evidence)


def _gap(c: Contrast, profiles: tuple[NcuMetrics, NcuMetrics]) -> tuple[float, str]:
    """Return the profiled difference, or the timed one of this workload if larger."""
    profiled = profiles[1].total_duration_us - profiles[0].total_duration_us
    timed = c.fast.near_workload == c.workload and c.gap_us > profiled
    return (c.gap_us, "timed") if timed else (profiled, "profiled")


def _own(c: Contrast) -> tuple[NcuMetrics, NcuMetrics] | None:
    """Return this workload's profiles on a GPU of the target, faster kernel first."""
    return _near(c) if c.fast.near_workload == c.workload else None


def _near(c: Contrast) -> tuple[NcuMetrics, NcuMetrics] | None:
    """Return the profiles; None if they show another order of times."""
    fast, slow = c.fast.near, c.slow.near
    return (fast, slow) if fast and slow and fast.total_duration_us < slow.total_duration_us else None


def _profiles(c: Contrast) -> list[str]:
    return [c.fast.near_path, c.slow.near_path]


def _anatomies(c: Contrast) -> tuple[AnatomyFunction, AnatomyFunction] | None:
    return (c.fast.anatomy, c.slow.anatomy) if c.fast.anatomy and c.slow.anatomy else None


def _anatomy_paths(c: Contrast, what: str) -> list[str]:
    return [f"{k.anatomy_path}#{k.anatomy.symbol[:SYMBOL]}/{what}" for k in (c.fast, c.slow) if k.anatomy]


def _second_launch(c: Contrast) -> Fired | None:
    if c.fast.prediction and c.slow.prediction:
        return _predicted_launches(c)
    fast, slow = c.fast.launches, c.slow.launches
    profiles = _near(c)
    if fast is None or slow is None or profiles is None or slow <= fast or len(profiles[1].kernels) < 2:
        return None
    rest = [sum(k.duration_us or 0.0 for k in ncu.kernels) - (ncu.duration_us or 0.0) for ncu in profiles]
    own, seen = _own(c), (c.fast.after_main_us, c.slow.after_main_us)
    (gap, kind), paths = _gap(c, profiles), [f"{path}#metrics/kernels" for path in _profiles(c) if path]
    timed = seen[1] is not None and (fast == 1 or seen[0] is not None)
    if timed:  # ncu runs kernels one at a time, a call may not
        rest, gap, kind = [seen[0] or 0.0, seen[1] or 0.0], c.gap_us if own else gap, "timed" if own else kind
        paths.append(c.slow.timeline_path)
    extra = rest[1] - (rest[0] if fast > 1 else 0.0)
    if own is None and extra > min(gap, c.gap_us):
        return None
    if c.gap_us > gap:
        gap, kind = c.gap_us, "timed"
    if extra < LEAST_SHARE * gap:
        return None
    second = max(
        (k for k in profiles[1].kernels if k.name != profiles[1].main_kernel), key=lambda k: k.duration_us or 0.0
    )
    numbers: Numbers = {"launches": slow, "fewer": fast, "us": extra, "second": second.name, "most": ""}
    evidence = [c.fast.timing_path, c.slow.timing_path, *paths]
    if not timed:  # alone, a launch cannot overlap
        kind, numbers["most"] = "most", "up to "
    share, sentence = extra / gap, None
    if fast == 1 and (cluster := _communicating(c.fast)):
        numbers["cluster"] = cluster
        evidence.append(
            f"{c.fast.anatomy_path}#{c.fast.anatomy and c.fast.anatomy.symbol[:SYMBOL]}/patterns/cluster communication"
        )
        sentence = "second_launch_cluster"
    return Fired(numbers, evidence, share, kind, sentence)


def _communicating(kernel: Kernel) -> int | None:
    """Return the size of a kernel's clusters if their CTAs exchange data."""
    pattern = kernel.anatomy.patterns.get("cluster communication") if kernel.anatomy else None
    return kernel.function.cluster_size if pattern and pattern.present and kernel.function else None


def _rest(launches: list[PredictedLaunch]) -> float:
    """Return the predicted time of a call beyond its longest kernel in µs."""
    longest = max(one.end_us - one.start_us for one in launches)
    return max(one.end_us for one in launches) - longest


def _longest(kernel: Kernel, figure: Figure) -> PredictedLaunch:
    """Return the longest predicted launch of a call."""
    return max(kernel.predicted(figure), key=lambda one: one.end_us - one.start_us)


def _predicted_limit(kernel: Kernel, figure: Figure) -> str:
    """Return what the longest predicted launch is bound by, as the page's table says."""
    return str(getattr(kernel.prediction.bounds, figure)) if kernel.prediction else ""


def _tensor_time(c: Contrast) -> Fired | None:
    result = _anatomies(c)
    if result is None or not (c.fast.prediction and c.slow.prediction):
        return None
    largest = [max(one.products or [], key=lambda p: math.prod(p.shape), default=None) for one in result]
    launches = [_longest(k, c.figure) for k in (c.fast, c.slow)]
    busy = [(one.end_us - one.start_us) * one.tensor_percent / 100 for one in launches]
    if largest[0] is None or largest[1] is None or busy[1] < 1.5 * busy[0]:
        return None
    work = c.slow.work / c.fast.work if c.slow.work and c.fast.work else 1.0
    small = math.prod(largest[0].shape) >= 2 * math.prod(largest[1].shape)
    extra = busy[1] - busy[0]
    if not (small or work >= MORE_WORK) or extra < LEAST_SHARE * c.gap_us:
        return None
    shapes = ["x".join(map(str, one.shape)) + " per CTA pair" * (one.cta_group == 2) for one in largest if one]
    half = largest[1].cta_group == 1 and largest[1].shape[0] == HALF_ROWS
    numbers: Numbers = {"slow_us": busy[1], "fast_us": busy[0], "work": work}
    more = work if work >= MORE_WORK else None
    numbers["why"] = sentences.tensor_time(c.slow.name, (shapes[1], shapes[0]) if small else None, half, more)
    evidence = [f"{k.predict_path}#metrics/launches/{c.figure}" for k in (c.fast, c.slow)]
    return Fired(numbers, [*_anatomy_paths(c, "products"), *evidence], extra / c.gap_us, "predicted")


def _other_launches(c: Contrast) -> Fired | None:
    fast, slow = c.fast.predicted(c.figure), c.slow.predicted(c.figure)
    if not fast or not 1 < len(slow) <= len(fast):
        return None
    rest = _rest(fast), _rest(slow)
    if rest[1] - rest[0] < LEAST_SHARE * c.gap_us:
        return None
    numbers: Numbers = {"launches": len(slow), "slow_us": rest[1], "more": len(fast), "fast_us": rest[0]}
    evidence = [f"{k.predict_path}#metrics/launches/{c.figure}" for k in (c.fast, c.slow)]
    return Fired(numbers, evidence, (rest[1] - rest[0]) / c.gap_us, "predicted")


def _predicted_launches(c: Contrast) -> Fired | None:
    fast, slow = c.fast.predicted(c.figure), c.slow.predicted(c.figure)
    if len(slow) <= len(fast) or not fast:
        return None
    extra = _rest(slow) - _rest(fast)
    if extra < LEAST_SHARE * c.gap_us:
        return None
    main = [max(one.end_us - one.start_us for one in launches) for launches in (fast, slow)]
    numbers: Numbers = {"launches": len(slow), "fewer": len(fast), "us": extra, "fast_us": main[0], "slow_us": main[1]}
    evidence = [f"{k.predict_path}#metrics/launches/{c.figure}" for k in (c.fast, c.slow)]
    return Fired(numbers, evidence, extra / c.gap_us, "predicted", "second_launch_predicted")


def _cold_start(c: Contrast) -> Fired | None:
    start, other = c.slow.cold_start_us, c.fast.cold_start_us
    profiles = _near(c)
    if c.figure != "cold" or start is None or other is None or profiles is None:
        return None
    if not (c.fast.function and c.slow.function):
        return None
    small, large = c.fast.function.code_bytes, c.slow.function.code_bytes
    waits = [ncu.stalls.get("no_instruction", 0.0) for ncu in profiles]
    extra = start - other
    if extra < 0.5 * c.gap_us or large < 1.5 * small or waits[1] < 0.15 or waits[1] < 1.5 * waits[0]:
        return None
    numbers: Numbers = {"slow_start": start, "fast_start": other, "slow_kb": large / 1024, "fast_kb": small / 1024}
    numbers |= {"slow_wait": 100 * waits[1], "fast_wait": 100 * waits[0], "profiled": c.slow.near_workload}
    evidence = [c.fast.timing_path, c.slow.timing_path, c.fast.inspect_path, c.slow.inspect_path]
    return Fired(
        numbers, [*evidence, *(f"{path}#metrics/stalls/no_instruction" for path in _profiles(c))], extra / c.gap_us
    )


def _spills(c: Contrast) -> Fired | None:
    if not (c.fast.function and c.slow.function) or c.slow.function.spill_bytes is None:
        return None
    fewer = c.fast.function.spill_bytes or 0
    if c.slow.function.spill_bytes < max(SPILLS, 2 * fewer):
        return None
    numbers: Numbers = {"bytes": c.slow.function.spill_bytes, "fewer": fewer}
    numbers["registers"] = c.slow.function.registers_per_thread
    return Fired(numbers, [c.fast.inspect_path, c.slow.inspect_path, c.slow.near_path])


def _product_width(c: Contrast) -> Fired | None:
    result, profiles = _anatomies(c), _near(c)
    if result is None or profiles is None:
        return None
    widest = [max((p.shape[1] for p in one.products or []), default=0) for one in result]
    kinds = [{p.instruction for p in one.products or []} for one in result]
    per_tensor = [_ratio(ncu.issue_active_percent, ncu.tensor_core_percent) for ncu in profiles]
    if not widest[1] or kinds[0].isdisjoint(kinds[1]) or widest[0] < 2 * widest[1]:
        return None
    if per_tensor[0] is None or per_tensor[1] is None or per_tensor[1] < 1.3 * per_tensor[0]:
        return None
    numbers: Numbers = {"narrow": widest[1], "wide": widest[0], "issued": per_tensor[1], "fewer": per_tensor[0]}
    return Fired(numbers, [*_anatomy_paths(c, "products"), *_profiles(c)])


def _ratio(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under and under >= 5 else None


def _multiplying(one: AnatomyFunction) -> list[Role]:
    return [role for role in one.roles or [] if "multiply" in role.tasks]


def _consumer_groups(c: Contrast) -> Fired | None:
    result, profiles = _anatomies(c), _near(c)
    if result is None or profiles is None:
        return None
    fast, slow = (_multiplying(one) for one in result)
    if len(fast) < 2 or len(slow) != 1 or len(slow[0].warps) < 8:
        return None
    waits = [ncu.stalls.get("barrier", 0.0) for ncu in profiles]
    if waits[1] < 0.1 or waits[1] < 1.3 * waits[0]:
        return None
    numbers: Numbers = {"warps": len(slow[0].warps), "groups": len(fast)}
    numbers |= {"slow_wait": 100 * waits[1], "fast_wait": 100 * waits[0]}
    spent = [wait * (ncu.duration_us or 0.0) for wait, ncu in zip(waits, profiles, strict=True)]  # by a warp
    gap, kind = _gap(c, profiles)
    evidence = [*_anatomy_paths(c, "roles"), *(f"{path}#metrics/stalls/barrier" for path in _profiles(c))]
    return Fired(numbers, evidence, (spent[1] - spent[0]) / gap, kind)


def _rings(one: AnatomyFunction) -> list[int]:
    """Return the numbers of stages of barriers that loads arrive at, once per barrier."""
    return [
        barrier.stages
        for barrier in one.barriers or []
        if any(arrival.kind == "copy" and "load" in arrival.role for arrival in barrier.arrivals)
    ]


def _in_flight(kernel: Kernel) -> float | None:
    """Return the bytes of loads that pipelines of several stages keep per SM."""
    one, function = kernel.anatomy, kernel.function
    if one is None or function is None or function.occupancy is None or one.barriers is None:
        return None
    boxes = [d.box_bytes for d in one.descriptors or [] if any(use.way == "load" for use in d.uses)]
    if not boxes or max(boxes) != min(boxes):
        return None
    copies = sum(
        barrier.stages * arrival.per_phase
        for barrier in one.barriers
        for arrival in barrier.arrivals
        if arrival.kind == "copy" and "load" in arrival.role and barrier.stages > 1
    )
    return copies * boxes[0] * function.occupancy.blocks_per_sm if copies else None


def _loads_in_flight(c: Contrast) -> Fired | None:
    result = _anatomies(c)
    if result is None or not all(_rings(one) for one in result):
        return None
    stages = [max(_rings(one)) for one in result]
    evidence = _anatomy_paths(c, "barriers")
    loaded = sum(any(use.way == "load" for use in d.uses) for d in result[1].descriptors or [])
    if stages[1] == 1 and stages[0] > 1 and len(_rings(result[1])) <= loaded:  # with more, a tensor may have several
        return Fired({"stages": stages[0]}, evidence, sentence="single_stage")
    in_flight = _in_flight(c.fast), _in_flight(c.slow)
    profiles = _near(c)
    if in_flight[0] is None or in_flight[1] is None or in_flight[1] > 0.67 * in_flight[0]:
        return None
    if profiles is None or (profiles[1].tensor_core_percent or 0.0) >= BUSY:
        return None
    return Fired({"slow_kb": in_flight[1] / 1024, "fast_kb": in_flight[0] / 1024}, [*evidence, *_profiles(c)])


def _tile(kernel: Kernel | Trial) -> tuple[int, int] | None:
    """Return rows and columns of an output tile, as the variant's parameters name them."""
    for rows, columns in (("tile_m", "tile_n"), ("tile_size_m", "tile_size_n")):
        result = kernel.params.get(rows), kernel.params.get(columns)
        if all(isinstance(one, int) and one > 0 for one in result):
            return result  # type: ignore[return-value]
    return None


def _tile_names(fast: tuple[int, int], slow: tuple[int, int]) -> Numbers:
    return {"slow_tile": f"{slow[0]}x{slow[1]}", "fast_tile": f"{fast[0]}x{fast[1]}"}


def _tiles(c: Contrast, kernel: Kernel) -> int | None:
    """Return the number of output tiles of matrix products; None if they differ in size."""
    return _about_tiles(c, kernel) if c.parameters.get("sizes") in ONE_SIZE else None


def _about_tiles(c: Contrast, kernel: Kernel) -> int | None:
    """Return the number of output tiles if all products had the mean size."""
    tile, (m, n) = _tile(kernel), (c.parameters.get(name) for name in "mn")
    if tile is None or not (isinstance(m, int) and isinstance(n, int)):
        return None
    products = int(c.parameters.get("batch") or 1) * int(c.parameters.get("groups") or 1)
    return math.ceil(m / tile[0]) * math.ceil(n / tile[1]) * products


def _idle_processors(c: Contrast) -> Fired | None:
    counts = _tiles(c, c.fast), _tiles(c, c.slow)
    tiles = _tile(c.fast), _tile(c.slow)
    if counts[0] is None or counts[1] is None or c.processors is None or not (tiles[0] and tiles[1]):
        return None
    used = [min(count / c.processors, 1.0) for count in counts if count]
    if used[1] > 0.75 or used[0] < 1.25 * used[1]:
        return None
    numbers: Numbers = {"slow_ctas": counts[1], "fast_ctas": counts[0], "processors": c.processors}
    numbers |= _tile_names(tiles[0], tiles[1])
    return Fired(numbers, [f"{k.timing_path or k.predict_path}#case/variant/params" for k in (c.fast, c.slow)])


def _few_ctas(c: Contrast) -> Fired | None:
    counts = _ctas(c, c.fast), _ctas(c, c.slow)
    if counts[0] is None or counts[1] is None or c.processors is None or _idle_processors(c):
        return None
    if counts[1] > 0.75 * c.processors or min(counts[0], c.processors) < 1.25 * counts[1]:
        return None
    numbers: Numbers = {"slow_ctas": counts[1], "fast_ctas": counts[0], "processors": c.processors}
    paths = [
        f"{k.near_path}#metrics/grid" if k.profiled else f"{k.predict_path}#metrics/launches" for k in (c.fast, c.slow)
    ]
    return Fired(numbers, paths)


def _ctas(c: Contrast, kernel: Kernel) -> int | None:
    """Return the CTAs of the longest launch, if it is half of the call."""
    if kernel.profiled and kernel.near:
        return math.prod(kernel.near.grid) if (kernel.near.duration_us or 0.0) >= 0.5 * kernel.us else None
    if not kernel.predicted(c.figure) or c.processors is None:
        return None
    longest = _longest(kernel, c.figure)
    if longest.end_us - longest.start_us < 0.5 * kernel.us:
        return None
    return round(longest.waves * longest.blocks_per_sm * c.processors)


def _tile_traffic(c: Contrast) -> Fired | None:
    tiles, counts = (_tile(c.fast), _tile(c.slow)), (_about_tiles(c, c.fast), _about_tiles(c, c.slow))
    if not (tiles[0] and tiles[1]) or counts[0] is None or counts[1] is None or c.processors is None:
        return None
    m, n = c.parameters["m"], c.parameters["n"]  # a tile beyond the matrix loads nothing more
    bytes_per_flop = [1 / min(tile[0], m) + 1 / min(tile[1], n) for tile in tiles if tile]
    if bytes_per_flop[1] < 1.2 * bytes_per_flop[0] or min(count for count in counts if count) < c.processors:
        return None
    numbers: Numbers = {"ratio": bytes_per_flop[1] / bytes_per_flop[0]}
    numbers |= _tile_names(tiles[0], tiles[1])
    return Fired(numbers, [f"{k.timing_path or k.predict_path}#case/variant/params" for k in (c.fast, c.slow)])


def _equal_tiles(c: Contrast) -> Fired | None:
    """Return equal tiles on this GPU that keep half of the difference.

    With other kernels of both DSLs, they must keep all of it.
    """
    mine = [trial for trial in c.trials if not trial.gpu]
    own = _with_kept_difference(c, [t for t in mine if t.kernel == (c.fast if t.fast else c.slow).name])
    return own or _with_kept_difference(c, mine, WHOLE)


def _equal_tiles_elsewhere(c: Contrast) -> Fired | None:
    """Look for such times of other kernels of both sides, or on another GPU."""
    fired = None if _equal_tiles(c) else _with_kept_difference(c, c.trials)
    return fired and dataclasses.replace(fired, sentence="equal_tiles_elsewhere")


def _with_kept_difference(c: Contrast, trials: Sequence[Trial], share: float = KEPT_SHARE) -> Fired | None:
    """Return times with equal tiles that keep a share of the difference.

    Only tiles of the contrast count, and tiles that are the fastest of both sides on a GPU.
    """
    kept = [
        (slow.us / fast.us, fast, slow)
        for gpu in dict.fromkeys(trial.gpu for trial in trials)
        for fast, slow in _with_equal_tiles(
            [trial for trial in trials if trial.gpu == gpu], _tile(c.fast), _tile(c.slow)
        )
        if math.log(slow.us / fast.us) >= share * math.log(c.slow.us / c.fast.us)
    ]
    if not kept:
        return None
    _, fast, slow = max(kept, key=lambda one: (not one[1].gpu, one[0]))
    rows, columns = _tile(fast) or (0, 0)
    numbers: Numbers = {"tile": f"{rows}x{columns}", "on": f" on the {fast.gpu}" * bool(fast.gpu)}
    numbers |= {"equal_fast": fast.kernel, "fast_us": fast.us, "equal_slow": slow.kernel, "slow_us": slow.us}
    return Fired(numbers, [trial.path for trial in (fast, slow)])


def _with_equal_tiles(trials: list[Trial], *tiles: tuple[int, int] | None) -> Iterable[tuple[Trial, Trial]]:
    """Yield the fastest trials of both sides on a GPU, per tile."""
    sides = [[one for one in trials if one.fast is fast and _tile(one)] for fast in (True, False)]
    if not all(sides):
        return
    best = {_tile(min(side, key=lambda one: one.us)) for side in sides}
    for tile in {*tiles, *(best if len(best) == 1 else ())}:
        equal = [[one for one in side if _tile(one) == tile] for side in sides]
        if all(equal):
            fast, slow = (min(side, key=lambda one: one.us) for side in equal)
            yield fast, slow


def _same_tiles(c: Contrast) -> Fired | None:
    """Return the tile that both kernels have."""
    tiles, count = (_tile(c.fast), _tile(c.slow)), _tiles(c, c.fast)
    if tiles[0] is None or tiles[0] != tiles[1] or count is None or c.processors is None:
        return None
    numbers: Numbers = {"tiles": count, "tile": f"{tiles[0][0]}x{tiles[0][1]}", "processors": c.processors}
    numbers["waves"] = count / c.processors
    evidence = [f"{k.timing_path or k.predict_path}#case/variant/params" for k in (c.fast, c.slow)]
    numbers["other"] = ""
    for trial in c.trials:  # another kernel of the faster DSL that loses
        loses = trial.fast and not trial.gpu and trial.kernel != c.fast.name and trial.us > c.slow.us
        if loses and _tile(trial) == tiles[0]:
            numbers["other"] = sentences.not_the_dsl(trial.kernel, c.fast.name, trial.us)
            evidence.append(trial.path)
    own = _own(c)
    if own is None:
        return Fired(numbers, evidence)
    for name, ncu in zip(("fast", "slow"), own, strict=True):
        numbers |= {f"{name}_dram": ncu.dram_percent or 0.0, f"{name}_mb": (ncu.dram_bytes or 0) / 1e6}
        numbers |= {f"{name}_wait": 100 * ncu.stalls.get("long_scoreboard", 0.0), f"{name}_ctas": math.prod(ncu.grid)}
    memory = {ncu.bottleneck.kind for ncu in own} == {"memory"}
    sentence = "same_tiles_memory" if memory else "same_tiles_profiled"
    return Fired(numbers, [*evidence, *_profiles(c)], sentence=sentence)


def _other_order(c: Contrast) -> Fired | None:
    """Return this workload's profiles if they show the other kernel ahead."""
    fast, slow = c.fast.near, c.slow.near
    if c.fast.near_workload != c.workload or not fast or not slow or fast.total_duration_us < slow.total_duration_us:
        return None
    numbers: Numbers = {"fast_us": fast.total_duration_us, "slow_us": slow.total_duration_us}
    return Fired(numbers, [f"{path}#metrics/total_duration_us" for path in _profiles(c)])


def _register_share(c: Contrast) -> Fired | None:
    result = _anatomies(c)
    if result is None:
        return None
    accumulators = [_accumulator_registers(one) for one in result]
    tiles = _tile(c.fast), _tile(c.slow)
    if (
        accumulators[0] is None
        or accumulators[1] is None
        or accumulators[0][0] < 1.5 * accumulators[1][0]
        or not (tiles[0] and tiles[1])
    ):
        return None
    if tiles[0][0] * tiles[0][1] <= tiles[1][0] * tiles[1][1]:
        return None
    numbers: Numbers = {"slow_warps": accumulators[1][1], "fast_warps": accumulators[0][1]}
    numbers |= {"slow_registers": accumulators[1][2], "fast_registers": accumulators[0][2]}
    numbers |= _tile_names(tiles[0], tiles[1])
    return Fired(numbers, _anatomy_paths(c, "roles"))


def _accumulator_registers(one: AnatomyFunction) -> tuple[int, int, int] | None:
    """Return all registers of the multiplying threads, their warps, and registers per thread."""
    roles = _multiplying(one)
    if not roles or any(p.d_in != "registers" for p in one.products or []):
        return None
    warps = sum(len(role.warps) for role in roles)
    each = max([*(max(role.registers, default=0) for role in roles)], default=0) or one.registers.per_thread
    return (32 * warps * each, warps, each) if each else None


def _tail(c: Contrast) -> Fired | None:
    own = _own(c)
    if own is None or not own[0].waves or not own[1].waves or own[1].waves < 1:
        return None
    idle = [1 - waves / math.ceil(waves) for waves in (own[0].waves, own[1].waves)]
    if idle[1] - idle[0] < 0.1:
        return None
    numbers: Numbers = {"waves": own[1].waves, "lost": 100 * idle[1], "fewer": 100 * idle[0]}
    return Fired(numbers, [f"{k.near_path}#metrics/waves" for k in (c.fast, c.slow)])


def _not_persistent(c: Contrast) -> Fired | None:
    if c.fast.prediction and c.slow.prediction:
        return _predicted_waves(c)
    result, own = _anatomies(c), _own(c)
    if result is None or own is None or not own[1].waves or own[1].waves < 3:
        return None
    loops = [one.patterns["persistent loop"].present if "persistent loop" in one.patterns else None for one in result]
    if loops != [True, False]:
        return None
    numbers: Numbers = {"waves": own[1].waves, "ctas": math.prod(own[1].grid), "fewer": math.prod(own[0].grid)}
    return Fired(numbers, [*_anatomy_paths(c, "patterns/persistent loop"), c.slow.near_path])


def _predicted_waves(c: Contrast) -> Fired | None:
    launches = [_longest(k, c.figure) for k in (c.fast, c.slow)]
    counts = _ctas(c, c.fast), _ctas(c, c.slow)
    if launches[1].waves < 3 or launches[0].waves > 1 or counts[0] is None or counts[1] is None:
        return None
    if _predicted_limit(c.slow, c.figure) != "waiting":  # set-up hides behind a busy resource
        return None
    numbers: Numbers = {"waves": launches[1].waves, "ctas": counts[1], "fewer": counts[0]}
    evidence = [f"{k.predict_path}#metrics/launches/{c.figure}" for k in (c.fast, c.slow)]
    return Fired(numbers, evidence, sentence="not_persistent_predicted")


def _dram_traffic(c: Contrast) -> Fired | None:
    own = _own(c)
    if own is None or not own[0].dram_bytes or not own[1].dram_bytes:
        return None
    if own[1].dram_bytes < 1.2 * own[0].dram_bytes or (own[1].dram_percent or 0.0) < BUSY:
        return None
    numbers: Numbers = {"slow_mb": own[1].dram_bytes / 1e6, "fast_mb": own[0].dram_bytes / 1e6}
    numbers["percent"] = own[1].dram_percent or 0.0
    return Fired(numbers, [f"{k.near_path}#metrics/dram_bytes" for k in (c.fast, c.slow)])


def _few_warps(c: Contrast) -> Fired | None:
    own = _own(c)
    if own is None or any((ncu.tensor_core_percent or 0.0) >= 5 for ncu in own):
        return None
    shares = [ncu.occupancy_achieved_percent for ncu in own]
    waits = sum(own[1].stalls.get(name, 0.0) for name in WAITING)
    if shares[0] is None or shares[1] is None or shares[0] < 1.6 * shares[1] or waits < 0.4:
        return None
    numbers: Numbers = {"slow_occupancy": shares[1], "fast_occupancy": shares[0], "wait": 100 * waits}
    numbers |= {"ctas": math.prod(own[1].grid), "threads": math.prod(own[1].block)}
    numbers["registers"] = own[1].registers_per_thread or 0
    return Fired(numbers, [f"{k.near_path}#metrics/occupancy_achieved_percent" for k in (c.fast, c.slow)])


def _instructions(c: Contrast) -> Fired | None:
    profiles = _near(c)
    if profiles is None or any((ncu.tensor_core_percent or 0.0) >= 5 for ncu in profiles):
        return None
    issued = [(ncu.issue_active_percent or 0.0) * (ncu.duration_us or 0.0) for ncu in profiles]
    moved = [ncu.dram_bytes or 0 for ncu in profiles]
    busy = [sum(ncu.stalls.get(name, 0.0) for name in ISSUING) for ncu in profiles]
    if not all(issued) or not all(moved) or max(moved) > 1.1 * min(moved):
        return None
    if issued[1] < 2 * issued[0] or busy[1] < 0.4 or busy[1] < 2 * busy[0]:
        return None
    numbers: Numbers = {"ratio": issued[1] / issued[0], "slow_busy": 100 * busy[1], "fast_busy": 100 * busy[0]}
    paths = [f"{path}#metrics/{what}" for path in _profiles(c) for what in ("issue_active_percent", "stalls")]
    return Fired(numbers, paths)


def _tensor_instructions(c: Contrast) -> Fired | None:
    own = _near(c) if c.fast.near_build and c.slow.near_build else None
    if own is None or any((ncu.tensor_core_percent or 0.0) < 5 for ncu in own):
        return None
    if (own[1].tensor_core_percent or 0.0) >= (own[0].tensor_core_percent or 0.0):  # its main kernel is not the slower
        return None
    issued = [(ncu.issue_active_percent or 0.0) * ncu.total_duration_us for ncu in own]
    if not issued[0] or issued[1] < 1.5 * issued[0] or (own[1].tensor_core_percent or 0.0) >= BUSY:
        return None
    numbers: Numbers = {"ratio": issued[1] / issued[0]}
    numbers |= {"slow_tensor": own[1].tensor_core_percent or 0.0, "fast_tensor": own[0].tensor_core_percent or 0.0}
    return Fired(numbers, [f"{path}#metrics/issue_active_percent" for path in _profiles(c)])


def _barriers(c: Contrast) -> Fired | None:
    own = _own(c)
    if own is None or _consumer_groups(c):
        return None
    waits = [ncu.stalls.get("barrier", 0.0) for ncu in own]
    if waits[1] < 0.15 or waits[1] < 2 * waits[0]:
        return None
    numbers: Numbers = {"slow_wait": 100 * waits[1], "fast_wait": 100 * waits[0]}
    return Fired(numbers, [f"{path}#metrics/stalls/barrier" for path in _profiles(c)])


def _row_clusters(c: Contrast) -> Fired | None:
    fast, slow, rows = c.fast.function, c.slow.function, c.parameters.get("rows")
    if fast is None or slow is None or c.processors is None or not isinstance(rows, int):
        return None
    if any(one.instructions is None or one.instructions.tensor_core for one in (fast, slow)):
        return None
    size, other = fast.cluster_size or 1, slow.cluster_size or 1
    if size < 2 * other or rows > 2 * c.processors:
        return None
    numbers: Numbers = {"rows": rows, "cluster": size, "other": other, "processors": c.processors}
    return Fired(numbers, [f"{k.inspect_path}#functions/0/cluster_size" for k in (c.fast, c.slow)])


def _bound(c: Contrast) -> Fired | None:
    own = _own(c)
    if own is None or own[0].bottleneck.kind not in ("compute", "memory") or own[1].bottleneck.kind != "latency":
        return None
    reasons = {name: share for name, share in own[1].stalls.items() if name not in ("selected", "not_selected")}
    if not reasons:
        return None
    worst = max(reasons, key=lambda name: reasons[name])
    compute = own[0].bottleneck.kind == "compute"
    numbers: Numbers = {
        "resource": "the tensor cores" if compute else "DRAM",
        "percent": (own[0].tensor_core_percent if compute else own[0].dram_percent) or 0.0,
        "tensor": own[1].tensor_core_percent or 0.0,
        "dram": own[1].dram_percent or 0.0,
        "stall": worst,
        "wait": 100 * reasons[worst],
    }
    return Fired(numbers, [f"{k.near_path}#metrics/bottleneck" for k in (c.fast, c.slow)])


def _predicted_bound(c: Contrast) -> Fired | None:
    if not (c.fast.prediction and c.slow.prediction):
        return None
    bound, other = (_predicted_limit(k, c.figure) for k in (c.fast, c.slow))
    if bound == "waiting" or other != "waiting":
        return None
    longest = [_longest(k, c.figure) for k in (c.fast, c.slow)]
    field = {"tensor cores": "tensor_percent", "DRAM": "dram_percent", "L2": "l2_percent"}[bound]
    busy = [float(getattr(launch, field)) for launch in longest]
    if busy[0] < 50 or busy[1] > 0.5 * busy[0]:
        return None
    name = "the tensor cores" if bound == "tensor cores" else bound
    evidence = [f"{k.predict_path}#metrics/{what}" for k in (c.fast, c.slow) for what in ("bounds", "launches")]
    return Fired({"resource": name, "percent": busy[0], "less": busy[1]}, evidence)


def _clock(c: Contrast) -> Fired | None:
    fast, slow = c.fast.timing, c.slow.timing
    if fast is None or slow is None or not slow.throttle_reasons:
        return None
    field = "hot_sm_clock_mhz" if c.figure == "warm" else "sm_clock_mhz"
    clocks = getattr(fast, field), getattr(slow, field)
    if not all(clocks):
        return None
    ratio = clocks[0] / clocks[1]
    share = math.log(ratio) / math.log(c.slow.us / c.fast.us) if ratio > 1 else 0.0
    if ratio < LEAST_CLOCKS or share < LEAST_SHARE:
        return None
    numbers: Numbers = {"slow_mhz": clocks[1], "fast_mhz": clocks[0]}
    return Fired(numbers, [f"{k.timing_path}#metrics/{field}" for k in (c.fast, c.slow)], share)


def _tracks(metrics: PredictMetrics) -> Mapping[str, Mapping[str, float]]:
    """Return, per row of the first CTA's timeline, time shares by span."""
    line = metrics.timeline
    length = line.end - line.begin
    result: dict[str, dict[str, float]] = {}
    for track in line.tracks:
        if not track.name.startswith("CTA 0 ") or not length:
            continue
        shares = result.setdefault(track.name.removeprefix("CTA 0 "), {})
        for kind, begin, end, *_ in track.spans:
            shares[kind] = shares.get(kind, 0.0) + (end - begin) / length
    return result


def _busy(shares: Mapping[str, Mapping[str, float]]) -> float | None:
    """Return the largest share of time that tensor cores or a warp work."""
    tensor = [one.get("product", 0.0) for name, one in shares.items() if name == "tensor cores"]
    warps = [one.get("work", 0.0) for name, one in shares.items() if name.startswith("warp")]
    return max([*tensor, *warps]) if tensor and warps else None


def _serial_chain(c: Contrast) -> Fired | None:
    if not (c.fast.prediction and c.slow.prediction):
        return None
    slow, fast = _tracks(c.slow.prediction), _tracks(c.fast.prediction)
    busy = _busy(fast), _busy(slow)
    if busy[0] is None or busy[1] is None:
        return None
    tensor = [one["tensor cores"].get("product", 0.0) for one in (fast, slow)]
    if tensor[1] > 0.4 or tensor[0] < 1.5 * tensor[1] or c.slow.prediction.dram_percent >= BUSY:
        return None
    if any(one.get("work", 0.0) + one.get("wait", 0.0) > 1.05 for one in slow.values()):
        return None  # spans overlap: shares of time are unknown
    waits = _named_waits(c.slow, slow)
    if not waits or min(waits.values()) < 0.3:
        return None
    numbers: Numbers = {"tensor": 100 * tensor[1], "fast_tensor": 100 * tensor[0], "busy": 100 * busy[1]}
    numbers |= {f"{task}_wait": 100 * share for task, share in waits.items()}
    evidence = [f"{k.predict_path}#metrics/timeline" for k in (c.fast, c.slow)]
    return Fired(numbers, [*evidence, *_anatomy_paths(c, "roles")[1:]])


def _named_waits(kernel: Kernel, shares: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the waiting shares of load, MMA and softmax warps, if all known."""
    result: dict[str, float] = {}
    for role in (kernel.anatomy.roles if kernel.anatomy else None) or []:
        rows = [shares.get(f"warp {warp}", {}).get("wait", 0.0) for warp in role.warps]
        for task in ("load", "multiply", "softmax"):
            if task in role.tasks and rows:
                result[task] = sum(rows) / len(rows)
    return result if len(result) == 3 else {}


def _tensor_memory_traffic(c: Contrast) -> Fired | None:
    result = _anatomies(c)
    if result is None or c.slow.prediction is None:
        return None
    moves = [one.counts.get("tmem_load", 0) + one.counts.get("tmem_store", 0) for one in result]
    if not moves[0] or moves[1] < 4 * moves[0] or _predicted_limit(c.slow, c.figure) != "waiting":
        return None
    numbers: Numbers = {"slow_moves": moves[1], "fast_moves": moves[0]}
    return Fired(numbers, [*_anatomy_paths(c, "counts"), f"{c.slow.predict_path}#metrics/bounds"])


RULES = (
    Rule(
        "second_launch",
        "The slower kernel launches more kernels per call, and they take a tenth of the difference or more. If another "
        "workload was profiled, they take at most its difference and this one.",
        _second_launch,
    ),
    Rule(
        "other_launches",
        "Predicted: the slower kernel has no more launches, but those beyond its longest one take longer, by a tenth "
        "of the difference or more.",
        _other_launches,
    ),
    Rule(
        "cold_start",
        "The slower kernel loses half of the difference or more by a cold cache, has 1.5 times the code, and its warps "
        "wait 1.5 times as long for instructions (15 % or more).",
        _cold_start,
    ),
    Rule("spills", f"The slower kernel spills {SPILLS} B per thread or more, and twice as much.", _spills),
    Rule(
        "loads_in_flight",
        "The slower kernel's loads have one stage each where the other's have several, or it holds at most 0.67 of "
        "the bytes in flight while its tensor cores are below 60 %.",
        _loads_in_flight,
    ),
    Rule(
        "consumer_groups",
        "All multiplying warps of the slower kernel, 8 or more, are one role, the other has two, and stalls at "
        "barriers are 1.3 times as large (10 % or more). Its share is the difference in stalls times duration.",
        _consumer_groups,
    ),
    Rule(
        "product_width",
        "The slower kernel's widest product has half the columns or less, and it issues 1.3 times as many instructions "
        "per percent of tensor-core use.",
        _product_width,
    ),
    Rule(
        "tensor_time",
        "Predicted: the slower kernel's tensor cores are busy 1.5 times as long, by a tenth of the difference or more, "
        f"and its largest product has half the size or less, or it computes {MORE_WORK:g} times the matrix FLOPs.",
        _tensor_time,
    ),
    Rule(
        "idle_processors",
        "The slower kernel has output tiles for at most 75 % of the SMs, the other for 1.25 times as many.",
        _idle_processors,
        refuted="equal_tiles",
    ),
    Rule(
        "few_ctas",
        "The slower kernel's longest launch, half of its call or more, has CTAs for at most 75 % of the SMs. The "
        "other's has 1.25 times as many.",
        _few_ctas,
    ),
    Rule(
        "tile_traffic",
        "The slower kernel loads 1.2 times as many bytes per FLOP because of its smaller tile; both fill all SMs.",
        _tile_traffic,
        refuted="equal_tiles",
    ),
    Rule(
        "register_share",
        "The multiplying threads of the faster kernel have 1.5 times the registers, and its output tile is larger.",
        _register_share,
        refuted="equal_tiles",
    ),
    Rule("tail", "The slower kernel leaves 10 percentage points more of its waves empty.", _tail),
    Rule(
        "not_persistent",
        "The slower kernel has no persistent loop and runs 3 waves or more; the other has one. Predicted: it runs 3 "
        "waves or more and waits, the other has at most 1.",
        _not_persistent,
    ),
    Rule(
        "dram_traffic",
        f"The slower kernel moves 1.2 times the DRAM bytes, at {BUSY:g} % of the peak or more.",
        _dram_traffic,
    ),
    Rule(
        "few_warps",
        "Neither kernel uses tensor cores, the faster one has 1.6 times the achieved occupancy, and 40 % of the slower "
        "one's stalls are waits for memory or earlier results.",
        _few_warps,
    ),
    Rule(
        "instructions",
        "Neither kernel uses tensor cores, both move the same DRAM bytes within 10 %, and the slower one issues twice "
        "the instructions; 40 % of its warps' time, and twice the other's share, is issuing or waiting to issue.",
        _instructions,
    ),
    Rule(
        "tensor_instructions",
        f"Both kernels use tensor cores, the slower one less and below {BUSY:g} % of the time, and it issues 1.5 times "
        "the instructions.",
        _tensor_instructions,
    ),
    Rule(
        "barriers",
        "15 % of the slower kernel's stalls or more are at barriers, and twice the other's share; `consumer_groups` "
        "does not fire.",
        _barriers,
    ),
    Rule(
        "row_clusters",
        "Neither kernel uses tensor cores, there are at most two rows per SM, and the faster kernel's clusters are "
        "twice as large.",
        _row_clusters,
    ),
    Rule("bound", "The faster kernel reaches 60 % of a peak, the slower one of none.", _bound),
    Rule(
        "predicted_bound",
        "Predicted: the faster kernel is bound by a resource that is busy 50 % or more. The slower one waits, and uses "
        "it half as much or less.",
        _predicted_bound,
    ),
    Rule(
        "clock",
        "The slower kernel ran at a clock 2 % lower or more under a reported limit, a tenth of the difference or more.",
        _clock,
    ),
    Rule(
        "serial_chain",
        "Predicted: the slower kernel's tensor cores work 40 % of the time or less, its load, multiply and softmax "
        "warps each wait 30 % or more, and DRAM is below 60 %.",
        _serial_chain,
    ),
    Rule(
        "tensor_memory_traffic",
        "Predicted: the slower kernel waits, and its code has 4 times the loads and stores of tensor memory.",
        _tensor_memory_traffic,
    ),
)

REFUTATIONS = (
    Rule(
        "equal_tiles",
        "No cause: with tiles of both kernels equal to one of the two, or to the fastest one of both, half of the "
        "difference or more remains on this GPU; of other kernels of both DSLs, all of it. Otherwise it is a doubt.",
        _equal_tiles,
    ),
)
DOUBTS = (Rule("equal_tiles", "", _equal_tiles_elsewhere),)
COMMON = (
    Rule(
        "same_tiles",
        "No cause, and no other one is known: both kernels have output tiles of one size, and so as many tiles.",
        _same_tiles,
    ),
    Rule(
        "other_order",
        "No cause, and no other one is known: the profile of this workload, with cold caches, shows the other order.",
        _other_order,
    ),
)
