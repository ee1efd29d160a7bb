"""Find ten design patterns in a function, each with evidence; null if unknown.

Every rule goes by code that is there and, where the build was run in the simulator, by what its warps did.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from cutesnake.stages.anatomy.code import INDEX, Code, Loop, number
from cutesnake.stages.anatomy.host import tensor_name
from cutesnake.stages.anatomy.numbers import of_warps
from cutesnake.stages.anatomy.pipelines import Group, Pipeline
from cutesnake.stages.anatomy.roles import STORES, Role
from cutesnake.stages.anatomy.watch import Seen

REMOTE = ("remote_load", "remote_store", "remote_atomic", "remote_address")
_MINUS_INFINITY = re.compile(r"\b0f[fF]{2}800000\b")
_DESCRIPTOR = 1 << 61  # from this bit up a shared-memory descriptor names its swizzle


@dataclass(frozen=True)
class Pattern:
    """found: True, False, or None where nothing at hand tells; `lines` are of the source."""

    present: bool | None
    evidence: str
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Function:
    """Known facts of one function; `seen` and its consequences are None without a run."""

    code: Code
    cluster: int | None
    seen: Seen | None
    roles: Sequence[Role] | None
    groups: Sequence[Group] | None
    pipelines: Sequence[Pipeline] | None
    swizzles: Sequence[str]  # of shared-memory layouts in the DSL's IR and of descriptors
    static_stages: Sequence[int] | None  # pipelines as the PTX alone shows them

    @cached_property
    def feeds(self) -> dict[int, list[int]]:
        """Return load from shared memory -> stores to its addresses in the watched run."""
        accesses = self.seen.shared.values() if self.seen else ()
        writers = [one for one in accesses if self.code.instructions[one.at].base == "st"]
        return {
            one.at: [writer.at for writer in writers if writer.addresses & one.addresses]
            for one in accesses
            if self.code.instructions[one.at].base == "ld"
        }

    @property
    def stores(self) -> list[int]:
        """Return the instructions that write global memory."""
        return self.code.places(*STORES)


def find_patterns(f: Function) -> dict[str, Pattern]:
    """Return all patterns, in order."""
    return {name: rule(f) for name, rule in RULES.items()}


def _multi_stage(f: Function) -> Pattern:
    code = f.code
    if f.pipelines is not None:
        deep = [p for p in f.pipelines if p.stages > 1]
        single = [
            g
            for g in f.groups or ()
            if len(g.offsets) > 1 and g.arrivers and not any(g in (p.full, p.empty) for p in f.pipelines)
        ]
        if deep:
            message = "; ".join(f"{p.stages} stages ({p.name})" for p in deep)
            return Pattern(True, message, _group_lines(code, [p.full for p in deep]))
        if single:
            message = "; ".join(
                f"{len(g.offsets)} barriers in turn ({' and '.join(sorted(g.arrivers))})" for g in single
            )
            return Pattern(True, message, _group_lines(code, single))
    kept = [at for at in code.places("cp_async_wait") if (number(_first(code, at)) or 0) > 0]
    if kept:
        most = max(number(_first(code, at)) or 0 for at in kept)
        return Pattern(True, f"cp.async groups, of which up to {most} stay under way", code.sources(kept))
    if f.static_stages:
        message = ", ".join(map(str, f.static_stages))
        return Pattern(True, f"circular buffers of {message} stages, by the mbarriers that the PTX sets up")
    if f.seen is None and code.places("barrier_init"):
        return Pattern(None, "there are mbarriers, but nothing was run that would show their stages")
    return Pattern(False, "no ring of barriers, and no group of copies that stays under way")


def _first(code: Code, at: int):  # type: ignore[no-untyped-def]  # an operand of any kind
    operands = code.instructions[at].operands
    return operands[0] if operands else None


def _specialised(f: Function) -> Pattern:
    if f.roles is None:
        shares = f.code.places("setmaxnreg")
        if shares:
            return Pattern(True, f"setmaxnreg in {len(shares)} places: warpgroups have unequal shares of registers")
        if not f.code.places("product", "tma_load", "wait"):
            return Pattern(False, "no MMA, no TMA copy and no mbarrier: there is nothing to share out")
        return Pattern(None, "nothing was run that would show what each warp does")
    busy = [role for role in f.roles if role.tasks]
    apart = [
        (a, b)
        for place, a in enumerate(busy)
        for b in busy[place + 1 :]
        if set(a.tasks) - set(b.tasks) and set(b.tasks) - set(a.tasks)
    ]
    message = "; ".join(f"{role.name}: {of_warps(role.warps)}" for role in f.roles)
    return Pattern(bool(apart), message)


def _persistent(f: Function) -> Pattern:
    code, stores = f.code, f.stores
    if not stores:
        return Pattern(None, "no store to global memory was recognised")
    results = _results(f)
    present: list[Loop] = []
    for name, places in sorted(results.items()):
        loops = [loop for at in sorted(places) if (loop := _work_loop(f, at))]
        if not loops or (f.seen is None and len(loops) < len(places)):
            what = f"{name} is stored" if name else "results are stored"
            return Pattern(False, f"{what} outside of any loop over tiles", code.sources(places))
        present += loops
    exits = [at for loop in {loop.header: loop for loop in present}.values() for at in code.exits(loop)]
    counted = any(code.depends(at, loop, f.feeds).counter for loop in present for at in code.exits(loop))
    how = "a counter in global memory" if counted else "the CTA's index"
    how = "cluster launch control" if code.places("launch_control") else how
    return Pattern(True, f"all results are stored in a loop over tiles, which {how} ends", code.sources(exits))


def _results(f: Function) -> dict[str, set[int]]:
    """Return tensor -> its stores in the watched run; outputs only, if any were written.

    Workspace is no result where an output is: descriptors are written there, for instance. A store that did not run
    can be of any tensor that its kind of store wrote. Without a run all stores are of one tensor.
    """
    if f.seen is None:
        return {"": set(f.stores)}
    wrote: dict[int, set[str]] = {at: set(f.seen.touched.get(at, ())) for at in f.stores}
    for (at, tensor), copy in f.seen.stores.items():
        wrote[at].add(tensor_name(f.seen.launch, tensor, copy.touched) or "")
    outputs = f.seen.launch.attributes.get("outputs", set())
    names = set().union(*wrote.values())
    present: dict[str, set[int]] = {}
    for name in names & outputs or names:
        places = {at for at in wrote if name in wrote[at]}
        kinds = {f.code.kinds[at] for at in places}
        present[name] = places | {at for at in wrote if not wrote[at] and f.code.kinds[at] in kinds}
    return present or {"": set(f.stores)}


def _work_loop(f: Function, at: int) -> Loop | None:
    """Return the outermost loop around a store that iterates over work tiles."""
    code = f.code
    for loop in code.loops_around(at):
        for leaving in code.exits(loop):
            depends = code.depends(leaving, loop, f.feeds)
            passed = depends.shared_memory and code.places("launch_control")
            if depends.specials & INDEX or depends.counter or passed:
                return loop
    return None


def _online_softmax(f: Function) -> Pattern:
    code = f.code
    sources = ("product", "wait", "global_load", "shared_load", "tmem_load")
    loops = [
        loop
        for loop in code.loops
        if not loop.spins and all(code.within(loop, kind) for kind in ("exponential", "maximum"))
        if code.within(loop, *sources)
    ]
    if not loops:
        return Pattern(False, "no loop has both maxima and exponentials")
    inner = loops[-1]  # the smallest
    exponentials = code.within(inner, "exponential")
    maxima = len(code.within(inner, "maximum"))
    message = f"each step of a loop takes maxima ({maxima} instructions) and exponentials ({len(exponentials)})"
    return Pattern(True, message, code.sources(exponentials)[:6])


def _register_accumulators(f: Function) -> Pattern:
    products = f.code.places("product")
    names = {f.code.instructions[at].base for at in products}
    if names & {"wgmma", "mma"}:
        message = "wgmma" if "wgmma" in names else "mma.sync"
        return Pattern(True, f"{len(products)} {message} instructions sum into registers", f.code.sources(products)[:6])
    if products:
        return Pattern(False, "tcgen05 sums in tensor memory")
    return Pattern(False, "no MMA")


def _swizzle(f: Function) -> Pattern:
    if f.swizzles:
        return Pattern(True, ", ".join(f.swizzles))
    large = [
        at
        for at, ins in enumerate(f.code.instructions)
        if any((number(operand) or 0) & (2**64 - 1) >= _DESCRIPTOR for operand in ins.operands[1:])
        and ins.base in ("or", "mov", "add")
        and "b64" in ins.parts + ("b64",) * ("s64" in ins.parts)
    ]
    products = f.code.places("product")
    if large and any(f.code.instructions[at].base in ("wgmma", "tcgen05") for at in products):
        return Pattern(True, "operand descriptors name a swizzle", f.code.sources(large)[:4])
    if f.seen is None and f.code.places("shared_load", "shared_store", "tma_load"):
        return Pattern(None, "shared memory is used, but its layout is not written down anywhere in the build")
    return Pattern(False, "no layout, descriptor or copy has one")


def _cluster(f: Function) -> Pattern:
    code = f.code
    if f.cluster is None:
        return Pattern(None, "the cluster's size is given at launch")
    if f.cluster == 1:
        return Pattern(False, "clusters of one CTA")
    multicast = [at for at in code.places("tma_load", "commit") if "multicast::cluster" in code.instructions[at].parts]
    paired = [at for at in code.places("product") if "cta_group::2" in code.instructions[at].parts]
    remote = code.places(*REMOTE)
    others = "shared memory of other CTAs"
    message = [
        f"{len(places)} {one if len(places) == 1 else more}"
        for places, one, more in (
            (multicast, "multicast copy or commit", "multicast copies and commits"),
            (paired, "MMA by two CTAs", "MMAs by two CTAs"),
            (remote, f"access to, or address of, {others}", f"accesses to, or addresses of, {others}"),
        )
        if places
    ]
    places = [*multicast, *paired, *remote]
    if message:
        return Pattern(True, f"clusters of {f.cluster}: {', '.join(message)}", code.sources(places)[:8])
    return Pattern(False, f"clusters of {f.cluster}, whose CTAs exchange nothing")


def _epilogue(f: Function) -> Pattern:
    code = f.code
    stores = [at for at in f.stores if not _writes_descriptor(f, at)]
    if not stores:
        return Pattern(None, "no store to global memory was recognised")
    kinds = {code.kinds[at] for at in stores}
    forms = []
    if kinds & {"tma_store", "bulk_store"}:
        forms.append("through shared memory, by TMA")
    if "tma_reduce" in kinds:
        forms.append("added up in global memory, by TMA from shared memory")
    if "global_store" in kinds:
        forms.append("from registers to global memory")
    if "global_atomic" in kinds:
        forms.append("by atomics on global memory")
    return Pattern(True, "; ".join(forms), code.sources(stores)[:8])


def _writes_descriptor(f: Function, at: int) -> bool:
    """Return whether a plain store writes a TMA descriptor to workspace."""
    if f.seen is None or f.code.kinds[at] != "global_store" or not f.seen.touched.get(at):
        return False
    outputs = f.seen.launch.attributes.get("outputs", set())
    changes = any("tensormap" in ins.text for ins in f.code.instructions if ins.base in ("tensormap", "fence"))
    return changes and not f.seen.touched[at] & outputs


def _boundary(f: Function) -> Pattern:
    code = f.code
    message: list[str] = []
    by_tma = code.places("tma_store", "tma_reduce")
    plain = code.places("global_store", "global_atomic")
    guarded = [at for at in plain if _guarded(code, at)]
    masks = [at for at, ins in enumerate(code.instructions) if ins.base == "selp" and _MINUS_INFINITY.search(ins.text)]
    if by_tma:
        message.append("TMA stores, which leave out what lies outside the tensor")
    if guarded:
        message.append(f"{len(guarded)} of {len(plain)} plain stores behind a test of an index against a size")
    if masks:
        message.append(f"{len(masks)} selections of minus infinity")
    places = [*by_tma, *guarded, *masks]
    if message:
        return Pattern(True, "; ".join(message), code.sources(places)[:8])
    if plain:
        return Pattern(
            False,
            "plain stores without a test: the extents of the result must be multiples of the tile",
            code.sources(plain)[:4],
        )
    return Pattern(None, "no store to global memory was recognised")


def _guarded(code: Code, at: int) -> bool:
    """Return whether a bounds test, and no loop condition, guards an instruction."""
    for branch in code.deciding(at):  # at any depth
        if any(branch in code.exits(loop) for loop in code.loops_around(branch)):
            continue
        depends = code.depends(branch)
        if depends.specials & {"%tid", "%ctaid", "%laneid"} and (depends.params or depends.global_memory):
            return True
    return False


def _drain(f: Function) -> Pattern:
    code = f.code
    if not (_multi_stage(f).present or code.places("product", "tma_store", "bulk_store")):
        return Pattern(False, "there is no pipeline to drain")
    message, places = [], []
    for tail, at in _tails(f):
        message.append(tail)
        places.append(at)
    last = [at for at in code.places("wgmma_wait") if number(_first(code, at)) == 0]
    if last:
        message.append("wgmma.wait_group 0")
        places += last
    emptied = [at for at in code.places("cp_async_wait") if not number(_first(code, at))]
    if emptied and code.places("cp_async"):
        message.append("all cp.async copies are waited for")
        places += emptied
    for barrier in f.groups or ():
        kinds = {kind for kind, _ in barrier.arrivals}
        readers = [role for role in f.roles or () if role.name in barrier.waits and role.does(code, "tmem_load")]
        if kinds == {"commit"} and readers:
            message.append("the last MMAs are waited for before tensor memory is read")
            places += [at for role in readers for at in barrier.waits[role.name]]
    stored = [at for at in code.places("store_wait") if number(_first(code, at)) == 0]
    if stored:
        message.append("bulk stores are waited for")
        places += stored
    if message:
        return Pattern(True, "; ".join(dict.fromkeys(message)), code.sources(places)[:8])
    if f.seen is None:
        return Pattern(None, "nothing was run that would show what happens after the last copy")
    return Pattern(False, "no wait after the last copy")


def _tails(f: Function) -> Iterable[tuple[str, int]]:
    """Yield (role and what it waits for, instruction) for producers that drain their pipeline."""
    for pipeline in f.pipelines or ():
        kinds = {kind for kind, _ in pipeline.full.arrivals}
        summed = kinds == {"commit"}  # one wait is enough: accumulators are released in order
        if pipeline.stages < 2 or f.seen is None or not (summed or kinds & {"copy", "cp.async"}):
            continue
        for role in f.roles or ():
            if role.name not in pipeline.full.arrivers:
                continue
            for (_, warp), waits in f.seen.drains.items():
                if warp not in role.warps:
                    continue
                present = {offset: at for offset, at in waits if offset in pipeline.empty.offsets}
                if present and (summed or len(present) > 1 or len(present) == pipeline.stages):
                    what = "its last accumulator is released" if summed else "its last stages are empty"
                    yield f"{role.name} waits until {what}", next(iter(present.values()))
                    break


def _group_lines(code: Code, groups: Iterable[Group]) -> list[str]:
    places = [at for g in groups for counter in (*g.arrivals.values(), *g.waits.values()) for at in counter if at >= 0]
    return code.sources(places)[:8]


RULES: dict[str, Callable[[Function], Pattern]] = {
    "multi-stage pipeline": _multi_stage,
    "warp specialisation": _specialised,
    "persistent loop": _persistent,
    "online softmax": _online_softmax,
    "accumulators in registers": _register_accumulators,
    "swizzled shared memory": _swizzle,
    "cluster communication": _cluster,
    "epilogue": _epilogue,
    "boundary handling": _boundary,
    "pipeline drain": _drain,
}
