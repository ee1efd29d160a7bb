"""Questions about a kernel, and how its anatomy record answers them."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from cutesnake.model.records.anatomy import Anatomy, AnatomyFunction, Arrival, DescriptorUse, Pipeline, Role, Waiter
from cutesnake.report.formatting import plural
from cutesnake.report.layouts.hardware import accumulator_columns
from cutesnake.stages.anatomy.numbers import of_warps
from cutesnake.stages.anatomy.product_text import MOVED

UNKNOWN = "Unknown: "
_Sided = TypeVar("_Sided", Arrival, DescriptorUse)


@dataclass(frozen=True)
class Question:
    """A question, with its answer and the reason, drawn from an anatomy record."""

    text: str
    answer: Callable[[Anatomy], str]
    why: Callable[[AnatomyFunction], str]


def main(record: Anatomy) -> AnatomyFunction:
    """Return the main device function of an anatomy record."""
    return record.functions[0]


def _not_seen(record: Anatomy) -> str:
    return f"{UNKNOWN}{record.not_watched or 'the main function did not run'}."


def _at(lines: list[str]) -> str:
    inside = [line for line in lines if "/program.py:" not in line]  # that file has the host's call, no device code
    short = list(dict.fromkeys(line.rpartition("/")[2] for line in inside))[:4]
    return f" ({', '.join(short)})" if short else ""


def _descriptors(record: Anatomy) -> str:
    f = main(record)
    if f.descriptors is None:
        return _not_seen(record)
    if not f.descriptors:
        return "None: the kernel copies without TMA descriptors."
    parts = []
    for d in f.descriptors:
        box = " x ".join(map(str, d.box))
        uses = ", ".join(f"{MOVED[use.way]} by {use.role}" for use in d.uses) or "not used in this run"
        size = f"{d.box_bytes:,} B, swizzle {d.swizzle}"
        parts.append(f"{d.tensor}: boxes of {box} {d.element} ({size}), {uses}")
    return "; ".join(f"{n} descriptors each: {text}" if n > 1 else text for text, n in Counter(parts).items()) + "."


def _grid(record: Anatomy) -> str:
    if not record.grids:
        return _not_seen(record)
    parts = []
    for one in record.grids:
        sizes = ", ".join(f"{k} {v}" for k, v in one.parameters.items() if isinstance(v, int) and v is not True)
        grid = one.grids.get(main(record).symbol)
        parts.append(f"{' x '.join(map(str, grid))} CTAs for {sizes}" if grid else f"no launch for {sizes}")
    return "; ".join(parts) + f", on a GPU with {record.grids[0].processors} SMs."


def _shared(record: Anatomy) -> str:
    shared = main(record).shared
    if shared.buffers is None:
        size = shared.dynamic_bytes
        return f"{UNKNOWN}which buffers share the {size:,} B." if size else "No dynamic shared memory."
    parts = [
        f"{b.name} {b.bytes:,} B" + (f" in {b.stages} stages" if b.stages and b.stages > 1 else "")
        for b in shared.buffers
    ]
    return f"{', '.join(parts)}; {shared.left_bytes:,} of {shared.limit_bytes:,} B are free."


def _roles(record: Anatomy) -> str:
    roles = main(record).roles
    if roles is None:
        return _not_seen(record)
    return "; ".join(map(_role, roles)) + "."


def _role(role: Role) -> str:
    some = ", ".join(f"{task} by {of_warps(warps)} only" for task, warps in role.some.items())
    return f"{role.name}: {of_warps(role.warps)}{f' ({some})' if some else ''}"


def _registers(record: Anatomy) -> str:
    f = main(record)
    shares = [f"{r.name} {', '.join(map(str, r.registers))}" for r in f.roles or [] if r.registers]
    launched = f"{f.registers.per_thread} registers per thread at launch"
    return (
        f"{launched}; setmaxnreg gives {'; '.join(shares)}."
        if shares
        else f"{launched}; no role changes its register count."
    )


def _pipelines(record: Anatomy) -> str:
    pipelines = main(record).pipelines
    if pipelines is None:
        return _not_seen(record)
    if not pipelines:
        return "None: no ring of full and empty barriers was detected."
    return "; ".join(f"{p.name}: {plural(p.stages, 'stage')}" for p in pipelines) + "."


def _barriers(record: Anatomy) -> str:
    f = main(record)
    if f.pipelines is None:
        return _not_seen(record)
    if not f.pipelines:
        return "None: no pipeline with full and empty barriers was detected."
    deepest = max(f.pipelines, key=lambda p: p.stages)
    parts = []
    for state, offsets in (("full", deepest.full_offsets), ("empty", deepest.empty_offsets)):
        b = next(b for b in f.barriers or [] if b.offset == offsets[0])
        kinds = " and ".join(dict.fromkeys(f"{a.kind} of {a.role}" for a in b.arrivals if a.kind != "copy"))
        copies = " and ".join(dict.fromkeys(a.role for a in b.arrivals if a.kind == "copy"))
        kinds += f"; bytes of copies by {copies}" if copies else ""
        who = ", ".join(w.role for w in b.waits)
        lines = [line for w in b.waits for line in w.lines]
        parts.append(f"{state}: {plural(b.count, 'arrival')} per phase ({kinds}), waits: {who}{_at(lines)}")
    return f"{deepest.name}, {plural(deepest.stages, 'stage')}; {'; '.join(parts)}."


def _products(record: Anatomy) -> str:
    products = main(record).products
    if products is None:
        return _not_seen(record)
    if not products:
        return "None: no MMA."
    return "; ".join(p.text.partition("; B's descriptor")[0] for p in products) + "."


def _tensor_memory(record: Anatomy) -> str:
    f = main(record)
    if f.products is None:
        return _not_seen(record)
    if not f.accumulators:
        return "Nothing: the kernel does not use tensor memory."
    parts = [f"D of {m} x {n} takes {accumulator_columns(m, n, g)} columns in each CTA" for m, n, g in f.accumulators]
    memory = f.tensor_memory
    starts = ", ".join(map(str, memory.accumulators_at or []))
    allocated = "An unknown number of" if memory.columns is None else memory.columns
    return f"{allocated} columns are allocated; {'; '.join(parts)}; MMAs of the run began at column {starts}."


def _copies(record: Anatomy) -> str:
    counts = main(record).counts
    names = (
        "global_load",
        "global_store",
        "cp_async",
        "tma_load",
        "bulk_load",
        "tma_store",
        "shared_load",
        "shared_store",
    )
    parts = [f"{counts[name]} {name.replace('_', ' ').replace('tma', 'TMA')}" for name in names if counts.get(name)]
    return f"Instructions in the code: {', '.join(parts) or 'no copies'}."


def _launch(record: Anatomy) -> str:
    f = main(record)
    attributes = f.host.attributes
    if attributes is None:
        return _not_seen(record)
    on = [name for name, value in attributes.items() if value and value != [1, 1, 1]]
    waits = f.counts.get("grid_dependency", 0)
    early = f"{plural(waits, 'griddepcontrol instruction')} in the code"
    none = "no griddepcontrol instruction in the code, so it begins when the kernel before it has ended"
    return f"Launch attributes: {', '.join(on) or 'none'}; {early if waits else none}."


def _pattern(name: str, there: str = "Yes: ", not_there: str = "No: ") -> Callable[[Anatomy], str]:
    """Return a function that reports a pattern's state, with a prefix that suits the question."""

    def answer(record: Anatomy) -> str:
        pattern = main(record).patterns[name]
        text = {True: there, False: not_there, None: "Unknown: "}[pattern.present] + pattern.evidence
        return f"{text[:1].upper()}{text[1:]}{_at(pattern.lines)}."

    return answer


def _always(text: str) -> Callable[[AnatomyFunction], str]:
    return lambda f: text


def _why_shared(f: AnatomyFunction) -> str:
    shared = f.shared
    rings = [(b, b.stages) for b in shared.buffers or [] if b.stages and b.stages > 1]
    if not rings:
        return "Shared memory is what the threads of a CTA and the copy engine have in common."
    _, stages = max(rings, key=lambda one: one[0].bytes)
    ring = [b for b, count in rings if count == stages]  # A and B, for instance, are loaded together
    stage = sum(b.bytes // stages for b in ring)
    left = shared.left_bytes or 0
    fits = "would fit, too" if stage <= left else "does not fit"
    return (
        "Each stage is a load in flight while another one is used. A further stage of "
        f"{' and '.join(b.name for b in ring)} takes {stage:,} B and {fits}: {left:,} B are free."
    )


def _why_registers(f: AnatomyFunction) -> str:
    counts = f.registers.setmaxnreg
    if not counts:
        return "All threads keep the count set at launch; an SM has 65,536 registers for all of its threads."
    return (
        f"Threads that only issue copies need few registers: they keep {min(counts)}. "
        f"Threads that hold results get up to {max(counts)}."
    )


def _why_pipelines(f: AnatomyFunction) -> str:
    stages = [p.stages for p in f.pipelines or []]
    if not stages:
        return "Without a ring, a load and its use follow each other."
    single = [p.name for p in f.pipelines or [] if p.stages == 1]
    text = f"Stages let a producer run ahead: {max(stages)} stages cover the latency of {max(stages) - 1} more loads."
    return text if not single else f"{text} One stage is a plain hand-over: {'; '.join(single)}."


def _why_products(f: AnatomyFunction) -> str:
    kinds = {p.instruction for p in f.products or []}
    if "tcgen05.mma" in kinds:
        pair = any(p.cta_group == 2 for p in f.products or [])
        shared = " Two CTAs share an MMA, so each loads half of B." if pair else ""
        return f"One thread issues an MMA, and tensor memory holds the accumulator, so registers stay free.{shared}"
    if "wgmma" in kinds:
        return "A warpgroup issues an MMA together and holds the sums in its registers, which limits the tile."
    return "A warp multiplies fragments that it holds in registers." if kinds else "Nothing is multiplied."


def _why_grid(f: AnatomyFunction) -> str:
    if f.patterns["persistent loop"].present:
        return "CTAs loop over tiles, so the grid is at most what fits on the SMs at once. Set-up happens once per CTA."
    return "Each CTA computes one tile, so the grid grows with the problem."


CONCEPTS = {  # question -> section of path A's page that explains it
    **{"descriptors": "tma", "copies": "tma", "grid": "tiles", "persistent": "tiles", "boundary": "tiles"},
    **{"shared": "stages", "pipelines": "pipelines", "barriers": "pipelines", "products": "products"},
    **{"roles": "roles", "drain": "roles", "cluster": "products", "epilogue": "epilogue"},
    **{"tensor_memory": "tensor-memory"},
}
QUESTIONS = {
    "descriptors": Question(
        "Which tensors get TMA descriptors, and with which tiles?",
        _descriptors,
        _always(
            "One thread starts a copy of a whole box, and the engine computes addresses and bounds. "
            "The inner extent of a box is at most its swizzle width."
        ),
    ),
    "grid": Question("How does the grid size follow from the problem?", _grid, _why_grid),
    "shared": Question("How is shared memory used?", _shared, _why_shared),
    "roles": Question(
        "Which warps do what?",
        _roles,
        _always(
            "Loads and MMAs are asynchronous, so one warp each is enough to issue them. "
            "Arithmetic needs many threads, since each holds a part of the tile."
        ),
    ),
    "registers": Question("How are registers distributed over roles?", _registers, _why_registers),
    "pipelines": Question(
        "Which pipelines exist, with how many stages, and which roles fill and empty them?", _pipelines, _why_pipelines
    ),
    "barriers": Question(
        "Which barriers does the deepest pipeline use, and which roles arrive and wait?",
        _barriers,
        _always(
            "Full counts who writes: a TMA producer arrives once and announces its bytes. "
            "Empty counts who reads, in all CTAs that get the copy."
        ),
    ),
    "products": Question(
        "Which matrix instructions does it use, and where are operands and accumulators?", _products, _why_products
    ),
    "tensor_memory": Question(
        "What lies in tensor memory?",
        _tensor_memory,
        _always("An accumulator takes columns by its N, and lanes by its M."),
    ),
    "copies": Question(
        "Which instructions move data?",
        _copies,
        _always(
            "TMA moves tiles with one instruction. cp.async and ordinary loads suit small or scattered data. "
            "Registers are the detour that bulk copies avoid."
        ),
    ),
    "launch": Question(
        "Which launch attributes does the host set, and what does the kernel wait for?",
        _launch,
        _always(
            "With dependent launch, set-up overlaps the end of the kernel before. "
            "The wait orders what that kernel wrote."
        ),
    ),
    "persistent": Question(
        "Does a CTA process several tiles, and when does it stop?", _pattern("persistent loop"), _why_grid
    ),
    "softmax": Question(
        "Does it use an online softmax, and in which loop?",
        _pattern("online softmax"),
        _always(
            "The scores of all keys do not fit on the chip. "
            "A running maximum keeps the exponentials in range, and earlier sums are rescaled when it grows."
        ),
    ),
    "cluster": Question(
        "What do the CTAs of a cluster exchange?",
        _pattern("cluster communication", "", "Nothing: "),
        _always(
            "CTAs of a cluster can share loads by multicast, an MMA by pairs, or partial results through "
            "distributed shared memory."
        ),
    ),
    "epilogue": Question(
        "How does the epilogue store results?",
        _pattern("epilogue", "", "None was detected: "),
        _always(
            "Stores by TMA need shared memory and leave out what lies outside. "
            "Stores from registers need predicates at the edges."
        ),
    ),
    "boundary": Question(
        "What happens at the edges of the problem?",
        _pattern("boundary handling", "", "No special handling: "),
        _always(
            "Sizes are seldom multiples of a tile. TMA fills with zeros and cuts stores; plain accesses need "
            "predicates; a softmax needs a mask."
        ),
    ),
    "drain": Question(
        "How are the pipelines drained?",
        _pattern("pipeline drain", "", "Not drained: "),
        _always(
            "A CTA that exits while a copy or a peer still uses its memory corrupts it. "
            "So the producer waits until its last stages are empty, unless a later wait implies it."
        ),
    ),
}


def by_warps(record: Anatomy) -> Anatomy:
    """Return the record with warps for roles, if warps are not specialised."""
    function = main(record) if record.functions else None
    if function is None or not function.roles or not function.pipelines:
        return record
    specialised = function.patterns.get("warp specialisation")
    if specialised is None or specialised.present:
        return record
    warps = {role.name: role.warps for role in function.roles}

    def name(roles: Iterable[str]) -> str:
        return of_warps(sorted(warp for role in set(roles) for warp in warps.get(role, [])))

    def side(entries: Sequence[_Sided]) -> list[_Sided]:
        return [replace(one, role=name([one.role])) for one in entries]

    def waits(entries: Sequence[Waiter]) -> list[Waiter]:
        lines = list(dict.fromkeys(line for one in entries for line in one.lines))
        return [Waiter(name(one.role for one in entries), lines)] if entries else []

    def ring(one: Pipeline) -> Pipeline:
        tensors = one.name.rpartition(": ")[0]
        ends = f"{name(one.producers)} → {name(one.consumers)}"
        return replace(one, name=f"{tensors}: {ends}" if tensors else ends)

    drain = function.patterns["pipeline drain"]
    evidence = drain.evidence
    for role in sorted(warps, key=len, reverse=True):
        evidence = evidence.replace(f"{role} waits", f"{name([role])} waits")
    changed = replace(
        function,
        pipelines=[ring(one) for one in function.pipelines],
        barriers=[replace(b, arrivals=side(b.arrivals), waits=waits(b.waits)) for b in function.barriers or []],
        named_barriers=[replace(b, roles=[name(b.roles)]) for b in function.named_barriers or []],
        descriptors=[replace(d, uses=side(d.uses)) for d in function.descriptors or []],
        patterns={**function.patterns, "pipeline drain": replace(drain, evidence=evidence)},
    )
    return replace(record, functions=[changed, *record.functions[1:]])


def answers(record: Anatomy, names: list[str]) -> list[tuple[str, str, str]]:
    """Return (question, answer, why) for each name; why is empty where the answer is unknown.

    For a record without functions, the answers say why no code exists.
    """
    if not record.functions:
        why = record.reason or record.not_watched
        return [(QUESTIONS[name].text, f"{UNKNOWN}{why}.", "") for name in names]
    replies = [(QUESTIONS[name], QUESTIONS[name].answer(record)) for name in names]
    return [(q.text, text, "" if text.startswith(UNKNOWN) else q.why(main(record))) for q, text in replies]
