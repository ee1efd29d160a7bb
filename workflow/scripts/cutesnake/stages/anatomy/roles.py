"""Find roles of warps (load, multiply, softmax, store, …) from the code they ran.

correct: rescales accumulators of an online softmax. accumulate: adds products up outside the tensor core.
convert: writes operands of a product from loaded tiles or from another product. compute: none of the others, but
takes part in barriers and uses shared memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cutesnake.stages.anatomy.code import Code, number
from cutesnake.stages.anatomy.watch import Seen

# What a role does, in the order in which a name lists it.
TASKS = ("load", "multiply", "softmax", "correct", "accumulate", "convert", "compute", "epilogue", "store", "schedule")
IDLE = "idle"
EQUAL_SHARE = 0.6  # share of the code that neighbouring warps must have in common to be one role
SOFTMAX = ("exponential", "maximum")
STORES = ("tma_store", "tma_reduce", "bulk_store", "global_store", "global_atomic")
_ASYNC_LOADS = ("tma_load", "bulk_load", "cp_async")


@dataclass(frozen=True)
class Role:
    """Warps that run the same instructions, `ran`; `some`: tasks that only some warps do."""

    name: str
    warps: tuple[int, ...]
    tasks: tuple[str, ...]
    registers: tuple[int, ...]  # what setmaxnreg sets in these warps
    ranks: tuple[int, ...] | None  # the CTAs of the cluster that have it, where not all
    ran: frozenset[int]
    some: Mapping[str, tuple[int, ...]]

    def does(self, code: Code, *kinds: str) -> list[int]:
        """Return the instructions of these kinds that the role ran."""
        return [at for at in code.places(*kinds) if at in self.ran]


def find_roles(code: Code, seen: Seen) -> list[Role]:
    """Return the roles of a launch, by their first warp."""
    ran = _instructions_by_warp(seen)
    waiting = [warp for warp in _busy(seen) if set(_tasks(code, seen, warp, ran[warp])) <= {"compute"}]
    for warp in waiting:  # branches that this problem did not take
        ran[warp] = ran[warp] | _not_taken(code, ran, waiting, warp)
    facts = {warp: (_tasks(code, seen, warp, places), _registers(code, places)) for warp, places in ran.items()}
    groups: list[list[int]] = []
    own = {warp: tasks for warp, (tasks, _) in facts.items()}
    if not code.places("product"):  # warps that differ in a few lines only share a role
        facts, ran = _level(facts, ran)
    for warp in sorted(ran):
        before = groups[-1][-1] if groups else None
        if (
            before is not None
            and _nested(facts[warp], facts[before])
            and _common_share(ran[warp], ran[before]) >= EQUAL_SHARE
        ):
            groups[-1].append(warp)
        else:
            groups.append([warp])
    joined = [_joined([facts[warp] for warp in group]) for group in groups]
    names = _names([tasks for tasks, _ in joined])
    return [
        Role(
            name,
            tuple(group),
            *fact,
            _ranks(code, seen, group),
            frozenset().union(*(ran[warp] for warp in group)),
            _some(own, group, fact[0]),
        )
        for name, group, fact in zip(names, groups, joined, strict=True)
    ]


Fact = tuple[tuple[str, ...], tuple[int, ...]]  # tasks of a warp, and its shares of registers
Facts = dict[int, Fact]


def _nested(a: Fact, b: Fact) -> bool:
    """Return whether one warp's tasks include the other's, with equal register shares."""
    return a[1] == b[1] and (set(a[0]) <= set(b[0]) or set(b[0]) <= set(a[0])) and bool(a[0]) == bool(b[0])


def _joined(facts: list[Fact]) -> Fact:
    tasks = {task for result, _ in facts for task in result}
    return tuple(task for task in TASKS if task in tasks), facts[0][1]


def _level(facts: Facts, ran: dict[int, set[int]]) -> tuple[Facts, dict[int, set[int]]]:
    """Give warps that share most of their code with the busiest warp its tasks."""
    busiest = max(ran, key=lambda warp: len(ran[warp]))
    like = [
        warp
        for warp in ran
        if _common_share(ran[warp], ran[busiest]) >= EQUAL_SHARE - 0.1 and facts[warp][1] == facts[busiest][1]
    ]
    return (
        {warp: facts[busiest] if warp in like else fact for warp, fact in facts.items()},
        {warp: ran[busiest] if warp in like else places for warp, places in ran.items()},
    )


def _instructions_by_warp(seen: Seen) -> dict[int, set[int]]:
    """Return warp of a CTA -> the instructions that it ran in any CTA."""
    result: dict[int, set[int]] = {warp: set() for warp in range(seen.launch.warps)}
    for _, warp, n in seen.visits:
        block = seen.blocks[n]
        result[warp].update(range(block.first, block.last))
    return result


def _busy(seen: Seen) -> set[int]:
    """Return the warps that arrive at mbarriers or wait for them."""
    arriving = {warp for bar in seen.bars.values() for _, _, (_, warp), _ in bar.arrivals}
    return arriving | {warp for bar in seen.bars.values() for _, (_, warp) in bar.waits}


def _not_taken(code: Code, ran: Mapping[int, set[int]], waiting: Sequence[int], warp: int) -> set[int]:
    """Return instructions that no warp ran, after blocks that only `waiting` warps ran."""
    blocks = {other: {code.block_of[at] for at in places} for other, places in ran.items()}
    known = set().union(*blocks.values())
    queue = list(blocks[warp] - set().union(*(mine for other, mine in blocks.items() if other not in waiting)))
    result: set[int] = set()
    while queue:
        for n in code.successors[queue.pop()]:
            if n not in known and n not in result:
                result.add(n)
                queue.append(n)
    return {at for n in result for at in code.blocks[n]}


def _tasks(code: Code, seen: Seen, warp: int, ran: set[int]) -> tuple[str, ...]:
    kinds = {code.kinds[at] for at in ran}
    asynchronous = bool(code.places(*_ASYNC_LOADS))
    tasks = set()
    if kinds & set(_ASYNC_LOADS) or (not asynchronous and "global_load" in kinds):
        tasks.add("load")
    if "product" in kinds:
        tasks.add("multiply")
    if in_one_loop(code, ran, *SOFTMAX):
        tasks.add("softmax")
    elif _converts(code, seen, ran):
        tasks.add("convert")
    elif in_one_loop(code, ran, "tmem_load", "tmem_store"):
        attention = in_one_loop(code, range(len(code.instructions)), *SOFTMAX)
        tasks.add("correct" if attention else "accumulate")
    elif _adds_up(code, ran):
        tasks.add("accumulate")
    if code.places("tma_store", "bulk_store", "tma_reduce") and _stages_output(code, seen, ran, kinds):
        tasks.add("epilogue")
    if kinds & set(STORES):
        tasks.add("store")
    if ("launch_control" in kinds and _asks(code, ran)) or (not tasks & {"load", "multiply"} and _directs(seen, warp)):
        tasks.add("schedule")
    if not tasks and warp in _busy(seen) and kinds & {"shared_load", "shared_store"}:
        tasks.add("compute")
    return tuple(task for task in TASKS if task in tasks)


def _stages_output(code: Code, seen: Seen, ran: set[int], kinds: set[str | None]) -> bool:
    """Return whether accumulators go to shared memory for a bulk store."""
    accumulators = "tmem_load" in kinds or any(code.instructions[at].base in ("wgmma", "mma") for at in ran)
    if not accumulators:
        return False
    written = [one.span for (at, remote), one in seen.shared.items() if at in ran and not remote and _stores(seen, at)]
    return any(_overlap(span, taken) for span in written for copy in seen.stores.values() for taken in copy.ranges)


def _stores(seen: Seen, at: int) -> bool:
    return seen.code[at].base in ("st", "stmatrix")


def _adds_up(code: Code, ran: set[int]) -> bool:
    """Return whether a loop adds accumulators up in registers: it waits, reads and stores nothing."""
    for loop in {loop for at in ran if code.kinds[at] == "tmem_load" for loop in code.loops_around(at)}:
        if code.within(loop, "wait") and not code.within(loop, *STORES, "shared_store", "tmem_store", "exponential"):
            return True
    return False


def _asks(code: Code, ran: set[int]) -> bool:
    return any("try_cancel" in code.instructions[at].parts for at in ran if code.kinds[at] == "launch_control")


def _directs(seen: Seen, warp: int) -> bool:
    """Return whether loading and multiplying warps read shared words that this warp writes."""
    loading = {other for copy in seen.loads.values() for _, other in copy.warps}
    multiplying = {other for product in seen.products.values() for _, other in product.warps}
    written = _addresses(seen, {warp}, "st")
    return bool(written & _addresses(seen, loading - {warp}, "ld") & _addresses(seen, multiplying - {warp}, "ld"))


def _addresses(seen: Seen, warps: set[int], base: str) -> set[int]:
    """Return shared offsets of the words that ordinary accesses of warps cover."""
    mine = (a for a in seen.shared.values() if seen.code[a.at].base == base and any(w in warps for _, w in a.warps))
    return {word for access in mine for word in access.addresses}


def _converts(code: Code, seen: Seen, ran: set[int]) -> bool:
    """Return whether a loop waits, reads tiles or products, and writes operands."""
    written = [at for at in ran if _writes_operand(seen, at)]
    return any(
        in_one_loop(code, ran, read, "wait")
        and _share_loop(code, written, [at for at in ran if code.kinds[at] == read])
        for read in ("shared_load", "tmem_load")
    )


def _writes_operand(seen: Seen, at: int) -> bool:
    """Return whether an instruction writes an operand of a product."""
    products = seen.products.values()
    columns = seen.columns.get(at)
    if columns:
        return any(min(columns) <= column <= max(columns) for one in products for column in one.operand_columns)
    access = seen.shared.get((at, False))
    if access is None or not _stores(seen, at):
        return False
    if any(_overlap(taken, access.span) for copy in seen.stores.values() for taken in copy.ranges):
        return False
    if any(offset in access.span for one in products for offset in one.operands):
        return True
    taking = {who for one in products if one.form["a_in"] == "registers" for who in one.warps}
    return any(
        one.warps.keys() <= taking - access.warps.keys() and _overlap(one.span, access.span)
        for one in seen.shared.values()
        if seen.code[one.at].base in ("ld", "ldmatrix")
    )


def _overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _share_loop(code: Code, some: Iterable[int], others: Iterable[int]) -> bool:
    around = {loop for at in some for loop in code.loops_around(at)}
    return any(loop in around for at in others for loop in code.loops_around(at))


def in_one_loop(code: Code, ran: Iterable[int], *kinds: str) -> bool:
    """Return whether one loop holds all these kinds among the instructions."""
    ran = set(ran)
    first = [at for at in code.places(kinds[0]) if at in ran]
    return any(
        all(any(at in ran for at in code.within(loop, kind)) for kind in kinds[1:])
        for loop in {loop for at in first for loop in code.loops_around(at)}
    )


def _registers(code: Code, ran: set[int]) -> tuple[int, ...]:
    values = (number(code.instructions[at].operands[0]) for at in sorted(ran) if code.kinds[at] == "setmaxnreg")
    return tuple(dict.fromkeys(value for value in values if value is not None))


def _common_share(a: set[int], b: set[int]) -> float:
    return len(a & b) / max(len(a | b), 1)


def _some(own: Mapping[int, tuple[str, ...]], group: list[int], tasks: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Return task -> warps, for tasks that only some warps of a role do."""
    doing = {task: tuple(warp for warp in group if task in own[warp]) for task in tasks}
    return {task: warps for task, warps in doing.items() if warps and len(warps) < len(group)}


def _ranks(code: Code, seen: Seen, group: list[int]) -> tuple[int, ...] | None:
    """Return the ranks that issue products or loads; None if all do."""
    working = {
        rank
        for rank, warp, n in seen.visits
        if warp in group
        and any(code.kinds[at] in ("product", *_ASYNC_LOADS) for at in range(seen.blocks[n].first, seen.blocks[n].last))
    }
    everyone = {rank for rank, _, _ in seen.visits}
    return tuple(sorted(working)) if working and working != everyone else None


def _names(tasks: list[tuple[str, ...]]) -> list[str]:
    plain = [" + ".join(result) or IDLE for result in tasks]
    return [
        f"{name} {1 + plain[:place].count(name)}" if plain.count(name) > 1 else name for place, name in enumerate(plain)
    ]
