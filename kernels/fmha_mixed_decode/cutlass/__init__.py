"""NVIDIA's CUTLASS example `blackwell/mixed_input_fmha/mixed_input_fmha_decode.py` in CuTe DSL, from the fetched wheel.

It splits the cache among blocks; a second kernel of its own joins their results. It is unmodified, but for a name that
it imports and never uses, `mapa`, which DSL 4.8 keeps elsewhere: `program` gives it one.
"""

from cutesnake.model.contract import Build, Runner, Variant
from kernels.fmha_mixed_decode.operator import Inputs, Outputs, Workload
from kernels.programs import compile_program
from kernels.targets import BLACKWELL as TARGETS
from kernels.upstream.examples import SOURCE

DSL = "cute"
WIDTH = 512  # elements of a head
TOKENS = 128  # of the cache that a block takes at a time
WIDEST_GROUP = 32  # query heads of a block
REDUCED = 128  # columns that a block of the second kernel joins
compile = compile_program("kernels.fmha_mixed_decode.cutlass.program:program", "fmha_mixed_decode")


def supports(workload: Workload) -> str | None:
    w = workload
    if w.head_dim != WIDTH:
        return f"head_dim is {w.head_dim}: DSL 4.8.1 builds NVIDIA's example for {WIDTH} only"
    if w.kv_length % TOKENS:
        return f"kv_length is {w.kv_length}: NVIDIA's example counts what lies past the end of the last {TOKENS} tokens"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return builds as NVIDIA's runner chooses them.

    They differ in heads of a block and warpgroups that convert the cache.
    """
    w = workload
    tile = min(-(-w.group // 8) * 8, WIDEST_GROUP)
    params = {"dtype": w.dtype, "head_dim": w.head_dim, "head_tile": tile}
    params |= {"converters": 4 if w.group == 8 and w.dtype == "int4" else 2}
    return (Variant(f"{w.dtype}_d{w.head_dim}_h{tile}", params),)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind two launches and the reset of the running maxima.

    The maxima are set to -inf first; the first kernel raises them.
    """
    import math

    import torch

    from cutesnake.stages.load.cute import Call, multiprocessors
    from kernels.upstream.installed import on_stream

    w, i, device = workload, inputs, inputs.q.device
    blocks = w.batch * w.kv_heads * -(-w.group // build.params["head_tile"])
    splits = max(1, min(multiprocessors(device) // blocks, -(-w.kv_length // TOKENS)))

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.float32, device=device)

    largest, lse = (empty(w.batch, w.heads) for _ in range(2))
    partial = empty(splits, w.batch, w.heads, w.head_dim)
    partial_largest, partial_sum = (empty(splits, w.batch, w.heads) for _ in range(2))
    k, v = (codes.view(torch.int8) for codes in (i.k, i.v))
    workspace = (largest, lse, partial, partial_largest, partial_sum)
    arguments = (i.q, k, v, i.k_scale, i.v_scale, outputs.out, *workspace, i.softmax_scale)
    call = Call(build.function(), arguments)

    def enqueue(stream: int) -> None:
        with on_stream(largest, stream):
            largest.fill_(-math.inf)
        call(stream)

    decode, reduction = (next(s for s in build.symbols if name in s) for name in ("_decode_", "_reduction_"))
    grids = (
        (splits, -(-w.group // build.params["head_tile"]), w.batch * w.kv_heads),
        (-(-w.head_dim // REDUCED), w.heads, w.batch),
    )
    return Runner(enqueue, (build.launch(decode, grids[0]), build.launch(reduction, grids[1])), with_torch=True)
