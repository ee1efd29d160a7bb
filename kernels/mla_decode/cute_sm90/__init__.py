"""Kernel `cute_sm90`: our MLA decode for Hopper in CuTe DSL. The contract; device code is in `kernel.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.build import cute as cute_build
from cutesnake.contract import Build, Runner, Variant, not_baked
from kernels.mla_decode.cute_sm90 import layout, plan_layout
from kernels.mla_decode.operator import request_lengths

if TYPE_CHECKING:
    from kernels.mla_decode.operator import Inputs, Outputs, Workload
    from kernels.mla_decode.split_kv.plan import Schedule

DSL = "cute"
TARGETS = {"sm_90a": ("TMA", "wgmma")}
SOURCE = "ours"
FUNCTION = "mla_decode_cute_sm90"
CLUSTER_BYTES = 60_000_000  # of a cache from which on clusters come before single CTAs, if they cost as much
HALVES_OF_FEW_ROWS = 1.02  # times what their schedule costs, where a request leaves rows of its row block empty
MEETING_SAVES = 1.3  # pages' time beside single CTAs, where two pieces are merged by those who compute them
LEAST_DROPPED_BYTES = 15_000_000  # of a cache whose pages the L2 shall drop first; and the most, where several CTAs
DROPPED_BYTES, DROPPED_IN_STEP_BYTES = 100_000_000, 400_000_000  # read a page, at any times or about at once
AHEAD_BYTES = 400_000_000  # of a cache from which on clusters ask for pages ahead
PROCESSORS = 132  # of an H100 or H200 in its SXM form; what runs is planned for the card at hand, in `bind`
DTYPES = ("bf16", "fp16")


@not_baked
def supports(workload: Workload) -> str | None:
    """None, or why this kernel cannot compute the workload."""
    if workload.dtype not in DTYPES:
        return f"cute_sm90 computes in {' and '.join(DTYPES)}, not in {workload.dtype}"
    if (workload.latent, workload.rope) != (layout.LATENT, layout.ROPE):
        return (
            f"cute_sm90 is written for latent {layout.LATENT} and rope {layout.ROPE}, "
            f"not {workload.latent} and {workload.rope}"
        )
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Single CTAs; clusters of two that share page loads, where a request has two row blocks, or halve the keys.

    The cheapest schedule first (schedule.py). Sharing loads costs as much as not sharing them: it draws less power, but
    the two wait for each other. It pays where the L2 cannot hold the cache, and so may drop what was read once.

    Where cutting some requests in two, and none in more, costs no more than what halves would do else, also halves
    whose two pieces meet (`make_met_schedule`): they save the combine kernel, which tells against single CTAs as well.

    The last two are the first once more: with padding that TMA fills with zeros, and with a schedule that a kernel on
    the card makes anew for new lengths (`plan`); both with a combine kernel.
    """
    from kernels.mla_decode.cute_sm90.schedule import cost, splits

    rows = workload.query_tokens * workload.heads
    lengths = request_lengths(workload)
    large = sum(lengths) * layout.WIDTH * 2 > CLUSTER_BYTES
    clusters: tuple[int, ...] = (1,)
    if rows > layout.ROWS:
        clusters = (2, 1) if large else (1, 2)
    found = [
        Variant(f"{workload.dtype}_cluster{cluster}", {"dtype": workload.dtype, "cluster": cluster})
        for cluster in clusters
    ]
    halves = Variant(f"{workload.dtype}_halves", {"dtype": workload.dtype, "cluster": 2, "halves": True})
    met = Variant(f"{halves.id}_met", {**halves.params, "meets": True})
    found.append(halves)

    def price(variant: Variant) -> float:
        kind = (variant.params.get(name, False) for name in ("halves", "meets"))
        few = HALVES_OF_FEW_ROWS if rows < layout.ROWS and variant.params["cluster"] == 2 else 1.0
        return few * cost(lengths, rows, PROCESSORS, variant.params["cluster"], *kind)

    costs = {variant.id: price(variant) for variant in found}
    if splits(lengths, rows, PROCESSORS, 2, halves=True, meets=True) and (met_cost := price(met)) <= costs[halves.id]:
        found.append(met)
        costs[met.id] = met_cost - MEETING_SAVES
    found.sort(key=lambda variant: costs[variant.id])
    default = halves if found[0] is met else found[0]
    found.append(Variant(f"{default.id}_filled", {**default.params, "padding": layout.FILLED}))
    if workload.batch <= plan_layout.MOST_REQUESTS and workload.kv_length <= plan_layout.MOST_LENGTH:
        found.append(Variant(f"{default.id}_planned", {**default.params, "planned": True}))
    return tuple(found)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Build for sm_90a with no GPU; sizes stay symbolic, so one build serves every batch, length and head count."""
    return cute_build.build(lambda: _program(**variant.params), FUNCTION, target, folder)


def _program(
    dtype: str,
    cluster: int,
    halves: bool = False,
    planned: bool = False,
    padding: str = layout.CLEARED,
    meets: bool = False,
    single: bool = False,
) -> tuple[Any, tuple[Any, ...]]:
    import cutlass
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

    from kernels.mla_decode.cute_sm90.kernel import MlaDecodeSm90

    def tensor(element: Any, *shape: Any) -> Any:
        order = tuple(reversed(range(len(shape))))
        return make_fake_compact_tensor(element, shape, stride_order=order, assumed_align=16)

    element = {"bf16": cutlass.BFloat16, "fp16": cutlass.Float16}[dtype]
    batch, rows, pages, table, items, workers, merges, partials, places = (cute.sym_int32() for _ in range(9))
    arguments = (
        tensor(element, batch, rows, layout.WIDTH),
        tensor(element, pages, layout.PAGE, layout.WIDTH),
        tensor(cutlass.Int32, batch, table),
        tensor(element, batch, rows, layout.LATENT),
        tensor(cutlass.Float32, batch, rows),
        tensor(cutlass.Int32, items, layout.ITEM_COLUMNS),
        tensor(cutlass.Int32, workers),
        tensor(cutlass.Int32, merges, 4),
        tensor(cutlass.Float32, partials, rows, layout.LATENT),
        tensor(cutlass.Float32, partials, rows),
        cutlass.Float32(1.0),
        *(cutlass.Int32(1) for _ in range(3)),
        *(cutlass.Int64(layout.KEEP) for _ in range(2)),
        cutlass.Int32(1),
    )
    if meets:
        from kernels.mla_decode.cute_sm90.met import MetMlaDecodeSm90

        meeting = (
            tensor(cutlass.Int32, places, *layout.COUNTERS_SHAPE),
            tensor(cutlass.Float32, places, *layout.LEFT_SHAPE),
        )
        return MetMlaDecodeSm90(element), (*arguments, *meeting, make_fake_stream())
    if not planned:
        kernel = MlaDecodeSm90(element, cluster, halves, padding=padding, single=single)
        return kernel, (*arguments, make_fake_stream())
    from kernels.mla_decode.cute_sm90.planned import PlannedMlaDecodeSm90

    step = tensor(cutlass.Int32, batch), cutlass.Int32(1), cutlass.Int32(1)
    return PlannedMlaDecodeSm90(element, cluster, halves, single), (*arguments, *step, make_fake_stream())


@not_baked
def page_policy(cache_bytes: int, readers: int, in_step: bool) -> int:
    """KEEP or EVICT_FIRST: how the L2 shall treat the pages of a cache of so many bytes.

    A cache that the L2 holds is best kept. Of a larger one the L2 holds nothing from call to call if it drops the
    oldest, and a part if it drops the newest; and in a lone call pages then take each other's place, and not that of
    lines whose writing back costs as much as a load. But of `readers`, the CTAs or clusters that load a page one after
    the other, the later ones may find it dropped. They hardly do if they go `in_step`, from one item each, until the
    cache is much larger. Measured on an H200 and an H100: benchmarks/mla_cute_sm90/README.md.
    """
    if cache_bytes < LEAST_DROPPED_BYTES:
        return layout.KEEP
    most = DROPPED_IN_STEP_BYTES if in_step else DROPPED_BYTES
    return layout.EVICT_FIRST if readers == 1 or cache_bytes <= most else layout.KEEP


@not_baked
def q_policy(pages: int, in_step: bool) -> int:
    """KEEP or EVICT_FIRST: how the L2 shall treat Q in clusters that share page loads; `pages`: how it treats these.

    Of workers with one item each Q may still be there when the same call comes again; of others it takes the place of
    what is read next. Measured on both cards: benchmarks/mla_cute_sm90/README.md.
    """
    return layout.KEEP if in_step else pages


@not_baked
def meetings(number: int, device: Any) -> tuple[Any, Any]:
    """Counters, 0, and room for what is left at so many meetings of two pieces."""
    import torch

    counters = torch.zeros((number, *layout.COUNTERS_SHAPE), dtype=torch.int32, device=device)
    left = torch.empty((number, *layout.LEFT_SHAPE), device=device)
    return counters, left


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Make the workspace, and the schedule for these kv lengths: other lengths need another bind, or a `plan`."""
    from cutesnake.load.cute import Call, multiprocessors
    from kernels.mla_decode.cute_sm90 import schedule as schedules
    from kernels.mla_decode.split_kv import run

    cluster, halves = build.params["cluster"], build.params.get("halves", False)
    rows = workload.query_tokens * workload.heads
    card = rows, multiprocessors(inputs.q.device), cluster, halves
    lengths = inputs.kv_lengths.tolist()
    planned = build.params.get("planned", False)
    schedule: Schedule
    met: tuple[Any, ...] = ()
    if build.params.get("meets", False):
        schedule = with_meetings = schedules.make_met_schedule(lengths, *card[:2])
        met = meetings(max(1, with_meetings.meetings), inputs.q.device)
    else:
        schedule = schedules.make_schedule(lengths, *card, on_card=planned)
    lanes, _ = schedules.lanes_and_workers(*card)
    in_step = all(len(pieces) == 1 for pieces in schedule.lane)
    if planned:
        schedule = schedules.pad(schedule, workload.batch, *card)
    cache_bytes = sum(lengths) * layout.WIDTH * 2
    policy = page_policy(cache_bytes, lanes, in_step)
    values = (
        *run.arguments(workload, inputs, outputs, schedule, layout.ITEM_COLUMNS),
        *(policy, q_policy(policy, in_step), int(cache_bytes > AHEAD_BYTES)),
        *met,
    )
    launches = run.launches(build, schedule, rows, cluster)
    if not planned:
        return Runner(Call(build.function(), values), launches)
    compute, plan = (Call(build.function(), (*values, inputs.kv_lengths, lanes, step)) for step in (0, 1))
    return Runner(compute, launches, plan=plan)
