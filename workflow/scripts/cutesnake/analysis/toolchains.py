"""Compare builds of neighbouring toolchains, and judge them for the target `gate`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from cutesnake.analysis.change.static_values import static_values
from cutesnake.model import provenance
from cutesnake.model.records.common import Dated
from cutesnake.model.records.toolchain import (
    Effect,
    GateLimits,
    Toolchain,
    ToolchainBuild,
    ToolchainChange,
    ToolchainCheck,
    Toolchains,
)

SHOWN = 10  # changes that the gate names
SPILLS, STACK, SITES, SERIALIZED = "spill bytes", "stack bytes", "spill sites", "serialized wgmma"
# Static values where more is worse. Registers, code and instructions may grow to a kernel's advantage. Of a local array
# that a compiler makes, as in NVIDIA/cutlass issue 3210, only the stack tells: its accesses are generic ones.
COSTS = {SPILLS: "spill_bytes", STACK: "stack_bytes", SITES: "spill_sites", SERIALIZED: "serialized_percent"}
FIGURES = {"registers": "registers_per_thread", SPILLS: "spill_bytes", STACK: "stack_bytes"}
FIGURES |= {"code bytes": "code_bytes", "instructions": "instructions", SITES: "instructions, local memory"}
FIGURES |= {SERIALIZED: "serialized_wgmma"}
CAUSES = 3  # source lines or functions of a change
PLACE_PARTS = 3  # of a source file's path that a cause names
NOTICED_PERCENT = 0.5  # times that differ less count as neither worse nor better
Key = tuple[str, str, str, str]  # operator, kernel, target, variant
Row = Mapping[str, ToolchainBuild]  # by toolchain


def rows(records: Iterable[Toolchain], toolchains: Sequence[str]) -> Mapping[Key, Row]:
    """Return builds by kernel, target and variant, then by toolchain in its order."""
    result: dict[Key, dict[str, ToolchainBuild]] = {}
    for entry in sorted(records, key=lambda one: toolchains.index(one.toolchain)):
        for build in entry.builds:
            key = entry.operator, entry.kernel, entry.target, build.variant
            result.setdefault(key, {})[entry.toolchain] = build
    return result


def by_operator(compared: Toolchains, known: Mapping[Key, Row]) -> dict[str, dict[str, int]]:
    """Return each operator's pairs of builds, and counts of worse and better ones."""
    result = {}
    for operator in dict.fromkeys(key[0] for key in known):
        changes = [one for one in compared.changes if one.build.startswith(f"{operator}/")]
        pairs = {name: {(one.build, one.now) for one in changes if one.effect == name} for name in ("worse", "better")}
        result[operator] = {
            "pairs": sum(len(row) - 1 for key, row in known.items() if key[0] == operator),
            **{name: len(builds) for name, builds in pairs.items()},
            "over": len({(one.build, one.now) for one in changes if one.over}),
        }
    return result


def figures(build: ToolchainBuild) -> dict[str, int | None]:
    """Return a build's static values, None if unknown: most registers, else sums."""
    values = [
        {**static_values(function), "serialized_wgmma": function.serialized_wgmma} for function in build.functions
    ]
    result: dict[str, int | None] = {}
    for name, key in FIGURES.items():
        of_functions = [one.get(key) for one in values]
        known = [one for one in of_functions if one is not None]
        whole = bool(known) and len(known) == len(of_functions)
        result[name] = (max(known) if name == "registers" else sum(known)) if whole else None
    return result


def matrix(records: Iterable[Toolchain], toolchains: Sequence[str], limits: Mapping[str, Any]) -> Toolchains:
    """Compare builds of each toolchain with builds of the last one that compiled."""
    allowed, compared = GateLimits(**limits), 0
    changes: list[ToolchainChange] = []
    for key, row in rows(records, toolchains).items():
        before: tuple[str, ToolchainBuild] | None = None  # the last one that compiled, else the last one
        for now in row.items():
            if before is not None:
                compared += 1
                changes += _changes("/".join(key), before, now, allowed)
            if before is None or now[1].status == "ok" or before[1].status == "failed":
                before = now
    return Toolchains(
        status="ok",
        reason=None,
        provenance=Dated(created=provenance.now()),
        toolchains=list(toolchains),
        limits=allowed,
        compared=compared,
        changes=sorted(changes, key=_rank),
    )


def _rank(change: ToolchainChange) -> tuple[Any, ...]:
    growth = 0.0
    if isinstance(change.old, int | float) and isinstance(change.new, int | float):
        growth = (change.new - change.old) / max(abs(change.old), 1)
    return not change.over, ("worse", "better", "other").index(change.effect), -abs(growth), change.build


def _changes(
    key: str, before: tuple[str, ToolchainBuild], now: tuple[str, ToolchainBuild], limits: GateLimits
) -> Iterator[ToolchainChange]:
    (first, old), (second, new) = before, now

    def change(figure: str, was: Any, is_now: Any, effect: Effect, over: bool, cause: str | None) -> ToolchainChange:
        return ToolchainChange(key, first, second, figure, was, is_now, effect, over, cause)

    if old.status != new.status:
        worse = new.status == "failed"
        yield change("compiles", old.status, new.status, "worse" if worse else "better", worse, first_line(new.reason))
    if "failed" in (old.status, new.status):
        return
    left, right = figures(old), figures(new)
    for name in FIGURES:
        was, is_now = left[name], right[name]
        if was == is_now:
            continue
        grown: float | None = is_now - was if was is not None and is_now is not None else None
        effect: Effect = "other" if name not in COSTS or grown is None else "worse" if grown > 0 else "better"
        cause = None
        if name == SERIALIZED:
            grown, cause = _serialized(old, new)
        elif name == STACK and grown is not None:
            spilled = left[SPILLS], right[SPILLS]  # a change of its own
            grown -= spilled[1] - spilled[0] if spilled[0] is not None and spilled[1] is not None else 0
        elif name in COSTS:
            cause = _sites(old, new)
        limit = asdict(limits).get(COSTS.get(name, ""))
        over = limit is not None and grown is not None and grown > limit
        yield change(name, was, is_now, effect, over, cause)
    for kind in ("predictions", "times"):
        verb = "predicted" if kind == "predictions" else "measured"
        for case in _paired(getattr(old, kind), getattr(new, kind)):
            yield from _slower(change, verb, *case, limits.slower_percent)
    for left_check, right_check in _paired(old.checks, new.checks):
        was_checked, is_checked = _verdict(left_check), _verdict(right_check)
        if was_checked != is_checked:
            worse = is_checked == "failed"
            name, known = f"simulated check, {right_check.workload}", None not in (was_checked, is_checked)
            effect = "other" if not known else "worse" if worse else "better"
            yield change(name, was_checked, is_checked, effect, worse and known, first_line(right_check.reason))


def _verdict(check: ToolchainCheck) -> str | None:
    return None if check.unknown_opcode else check.status  # a newer compiler emits newer instructions


def _slower(change: Any, verb: str, old: Any, new: Any, limit: float) -> Iterator[ToolchainChange]:
    for cache in ("cold", "warm"):
        was, is_now = getattr(old, f"{cache}_us"), getattr(new, f"{cache}_us")
        name = f"{verb} {cache} µs on {new.device or old.device}, {new.workload}"
        if was is not None and is_now is None:
            yield change(name, round(was, 3), None, "other", False, first_line(new.reason))
        if was is None or is_now is None:
            continue
        percent = 100 * (is_now / was - 1)
        if round(was, 3) != round(is_now, 3):
            over = percent > limit
            small = abs(percent) < NOTICED_PERCENT and not over
            effect = "other" if small else "worse" if percent > 0 else "better"
            yield change(name, round(was, 3), round(is_now, 3), effect, over, None)


def _paired(before: Iterable[Any], now: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    known = {one.workload: one for one in before}
    return ((known[one.workload], one) for one in now if one.workload in known)


def _serialized(before: ToolchainBuild, now: ToolchainBuild) -> tuple[float | None, str | None]:
    """Return the most percentage points by which a function's serialized wgmma grew, and where.

    Functions are paired in order; unknown counts are left out. Percent are of a function's tensor-core instructions.
    """
    grown: list[tuple[float, str]] = []
    for pair in zip(before.functions, now.functions, strict=False):
        counts = [
            (one.serialized_wgmma, one.instructions.tensor_core)
            for one in pair
            if one.serialized_wgmma is not None and one.instructions is not None
        ]
        if len(counts) < len(pair):
            continue
        was, is_now = (100 * part / whole if whole else 0.0 for part, whole in counts)
        if is_now > was:
            shown = " → ".join(f"{part} of {whole}" for part, whole in counts)
            grown.append((is_now - was, f"{pair[1].symbol} ({shown})"))
    grown.sort(key=lambda one: -one[0])
    return (grown[0][0] if grown else None), ", ".join(text for _, text in grown[:CAUSES]) or None


def _sites(before: ToolchainBuild, now: ToolchainBuild) -> str | None:
    """Return the source lines where accesses to local memory grew or fell most."""
    old, new = ({site.source: site.loads + site.stores for site in one.spills} for one in (before, now))
    grown = {place: new.get(place, 0) - old.get(place, 0) for place in {*old, *new}}
    most = sorted((place for place in grown if grown[place]), key=lambda place: (-abs(grown[place]), place))
    return ", ".join(f"{_short(place)} ({grown[place]:+d})" for place in most[:CAUSES]) or None


def _short(place: str) -> str:
    return "/".join(place.split("/")[-PLACE_PARTS:])


def first_line(text: str | None, most: int = 200) -> str | None:
    """Return the first line of a reason, at most so many characters of it."""
    return text.strip().splitlines()[0][:most] if text and text.strip() else None


def gate(compared: Toolchains) -> tuple[bool, str]:
    """Return whether no change is beyond its limit, and what to report."""
    over = [change for change in compared.changes if change.over]
    names = " → ".join(compared.toolchains)
    if not compared.compared:
        return False, f"{names}: nothing to compare: no kernel of the chosen operators is compiled by two of them"
    gone = sum(change.new is None and change.old is not None for change in compared.changes)
    missing = f"; unknown now: {gone} (results/report/toolchains.html)" if gone else ""
    if not over:
        count = sum(change.effect == "worse" for change in compared.changes)
        shown = f"{compared.compared} pairs of builds, none worse than allowed ({count} changes for the worse)"
        return True, f"{names}: {shown}{missing}"
    lines = [describe(change) for change in over[:SHOWN]]
    more = [f"and {len(over) - SHOWN} more: results/report/toolchains.html"] if len(over) > SHOWN else []
    builds = len({change.build for change in over})
    head = f"{names}: {builds} of {compared.compared} pairs of builds are worse than allowed{missing}"
    return False, "\n  ".join([head, *lines, *more])


def describe(change: ToolchainChange) -> str:
    """Return a change as a line."""
    where = f"{change.build}: {change.figure} {_shown(change.old)} → {_shown(change.new)}"
    percent = ""
    if isinstance(change.old, float) and isinstance(change.new, float) and change.old:
        percent = f" ({100 * (change.new / change.old - 1):+.1f} %)"
    return f"{where}{percent}{f'; {change.cause}' if change.cause else ''} ({change.before} → {change.now})"


def _shown(value: Any) -> str:
    return "unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
