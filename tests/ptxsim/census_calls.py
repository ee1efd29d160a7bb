"""Calls of kernels in wheels, as GPU tests: test_census.py runs them with PTXSIM=1."""

from __future__ import annotations

import os
import random
import signal
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
import torch

SITE, TARGET = os.environ["SITE"], os.environ["CUTE_DSL_ARCH"].removeprefix("sm_")
EACH = 2  # operators of a class, of different types
NOT_IN_TORCH = {"Int4", "Float6E2M3FN", "Float6E3M2FN"}
LIMIT = 300  # seconds for a call on two busy cores; most take 10


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """Fail a call that does not end, so that the next ones run."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"the call did not end in {LIMIT} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def filled(*shape: int, dtype: torch.dtype = torch.bfloat16, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype).requires_grad_(grad)


FORWARD: list[dict[str, Any]] = [
    {},
    {"causal": True},
    {"heads": 1},
    {"window_size": (64, 0)},
    {"softcap": 20.0},
    {"size": 64},
    {"size": 96, "causal": True},
    {"size": 192, "size_v": 128},
    {"size": 256},
    {"learnable_sink": True},
    {"num_splits": 3, "keys": 512},
]


@pytest.mark.parametrize("options", FORWARD, ids=str)
def test_flash_attention(options) -> None:
    from flash_attn.cute.interface import flash_attn_func

    options = dict(options)
    if "num_splits" in options and TARGET.startswith("90"):
        pytest.skip("FlashAttention 4 splits keys on sm_100 only")
    size, heads, keys = options.pop("size", 128), options.pop("heads", 2), options.pop("keys", 200)
    size_v = options.pop("size_v", size)
    if options.pop("learnable_sink", False):
        options["learnable_sink"] = filled(2)
    flash_attn_func(filled(1, 150, 2, size), filled(1, keys, heads, size), filled(1, keys, heads, size_v), **options)


@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"heads": 1}, {"size": 64}, {"deterministic": True}], ids=str
)
def test_flash_attention_backward(options) -> None:
    from flash_attn.cute.interface import flash_attn_func

    options = dict(options)
    size, heads = options.pop("size", 128), options.pop("heads", 2)
    shapes = (1, 150, 2, size), (1, 200, heads, size), (1, 200, heads, size)
    out = flash_attn_func(*(filled(*shape, grad=True) for shape in shapes), **options)[0]
    out.backward(torch.randn_like(out))


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_of_ragged_batches(causal) -> None:
    from flash_attn.cute.interface import flash_attn_varlen_func

    ends = torch.tensor([0, 70, 150], dtype=torch.int32, device="cuda")
    lengths = {"cu_seqlens_q": ends, "cu_seqlens_k": ends, "max_seqlen_q": 80, "max_seqlen_k": 80}
    flash_attn_varlen_func(*(filled(150, 2, 128) for _ in range(3)), **lengths, causal=causal)


def test_flash_attention_of_mla() -> None:
    from flash_attn.cute.interface import flash_attn_func

    if TARGET.startswith("90"):
        pytest.skip("FlashAttention 4 has MLA on sm_100 only")
    flash_attn_func(filled(1, 1, 128, 64), filled(1, 128, 1, 64), filled(1, 128, 1, 512), qv=filled(1, 1, 128, 512))


def test_flash_attention_combines_splits() -> None:
    from flash_attn.cute.interface import flash_attn_combine

    sums = filled(3, 1, 2, 64, dtype=torch.float32).transpose(2, 3)
    flash_attn_combine(filled(3, 1, 64, 2, 128, dtype=torch.float32), sums)


@pytest.mark.parametrize("columns", [192, 16384])
@pytest.mark.parametrize("name", ["rmsnorm", "softmax", "cross_entropy"])
def test_quack_rows(name, columns) -> None:
    from quack import cross_entropy, rmsnorm, softmax

    x = filled(4, columns, grad=True)
    targets = torch.tensor([1, 2, 3, 4], device="cuda")
    calls = {
        "rmsnorm": lambda: rmsnorm(x, filled(columns, dtype=torch.float32, grad=True)),
        "softmax": lambda: softmax(x),
        "cross_entropy": lambda: cross_entropy(x, targets),
    }
    out = calls[name]()
    out.backward(torch.randn_like(out))


def test_quack_topk() -> None:
    from quack.topk import topk

    topk(filled(4, 256), 8)


def test_quack_rotary() -> None:
    from quack.rotary import apply_rotary_emb

    apply_rotary_emb(filled(1, 16, 2, 64), filled(16, 32), filled(16, 32))


@pytest.mark.parametrize("name", ["plain", "gelu", "gated", "add", "derivative", "rows", "keys", "split"])
def test_quack_gemm(name) -> None:
    from quack import gemm_interface as of

    a, b = filled(256, 128), filled(128, 256)
    ends = torch.tensor([0, 100, 256], dtype=torch.int32, device="cuda")
    calls = {
        "plain": lambda: of.gemm(a, b, tuned=False),
        "gelu": lambda: of.gemm_act(a, b, activation="gelu_tanh_approx", tuned=False),
        "gated": lambda: of.gemm_gated(a, b, activation="swiglu", tuned=False),
        "add": lambda: of.gemm_add(a, b, filled(256, 256), tuned=False),
        "derivative": lambda: of.gemm_dact(a, b, filled(256, 256), activation="relu_sq", tuned=False),
        "rows": lambda: of.gemm(a, torch.stack([b, b]), cu_seqlens_m=ends, tuned=False),
        "keys": lambda: of.gemm(filled(256, 256).t(), filled(256, 256), cu_seqlens_k=ends, tuned=False),
        "split": lambda: of.gemm(filled(128, 1024), filled(1024, 128), split_k=2, tuned=False),
    }
    calls[name]()


def operators() -> list[Any]:
    """Return EACH operators of a class, twice as many with scales, of different types."""
    import cutlass

    cutlass.__path__.append(f"{SITE}/cutlass")
    import cutlass.operators as of

    by_class = defaultdict(list)
    for one in of.get_operators(target_sm=TARGET):
        operands = one.metadata.operands
        by_class[type(one).__name__, hasattr(operands.A, "quantized")].append(one)
    chosen = []
    for name in sorted(by_class):
        matches = by_class[name]
        random.Random(0).shuffle(matches)
        kinds: dict[tuple[Any, ...], Any] = {}
        for one in matches:
            operands = one.metadata.operands
            parts = [getattr(x, "quantized", x).dtype for x in (operands.A, operands.B, operands.out)]
            mode = getattr(operands.A, "mode", None)
            if NOT_IN_TORCH.isdisjoint(x.__name__ for x in parts):
                kinds.setdefault((*parts, mode and tuple(getattr(mode, "value", mode))), one)
        chosen += list(kinds.values())[: 2 * EACH if name[1] else EACH]
    return chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """List operators, which takes seconds, only where this file is run."""
    if "operator" in metafunc.fixturenames:
        metafunc.parametrize("operator", operators(), ids=lambda x: x.metadata.operator_name)


def test_nvidias_operator(operator) -> None:
    import cutlass.operators as of
    from cutlass import Float4E2M1FN
    from cutlass.operators.utils.dtype import cutlass_type_from_torch_type as type_of

    names = "float16 bfloat16 float32 float64 int8 uint8 int32 float8_e4m3fn float8_e5m2 float8_e8m0fnu"
    types = {type_of(x): x for x in (getattr(torch, name) for name in names.split())}
    types[Float4E2M1FN] = torch.float4_e2m1fn_x2

    def tensor(of_what: Any, *shape: int) -> torch.Tensor:
        kind = types[of_what.dtype]
        if kind is torch.float4_e2m1fn_x2:
            return torch.randint(256, (*shape[:-1], shape[-1] // 2), dtype=torch.uint8).view(kind)
        return filled(*shape, dtype=torch.float32).mul(2).to(kind)

    def operand(of_what: Any, rows: int, columns: int, along_k: bool = True) -> Any:
        """A matrix (1, rows, columns), and its scales where it has them."""
        plain = getattr(of_what, "quantized", of_what)
        if plain.stride[-2] == 1 and plain.stride[-1] != 1:
            matrix = tensor(plain, 1, columns, rows).transpose(1, 2)
        else:
            matrix = tensor(plain, 1, rows, columns)
        if plain is of_what:
            return matrix
        shape = (1, rows, columns) if along_k else (1, columns, rows)
        count = of.ScaledOperand.numel_scale(shape, of_what.mode, of_what.swizzle)
        scales = torch.ones(count, device="cuda").to(types[of_what.scale.dtype])
        return of.ScaledOperand(matrix, scales, of_what.mode, of_what.swizzle)

    operands = operator.metadata.operands
    parts = [getattr(x, "quantized", x) for x in (operands.A, operands.B, operands.out)]
    if missing := [x for x in parts if x.dtype not in types]:
        pytest.skip(f"torch has no {missing[0].dtype}")
    if hasattr(operands, "offsets"):
        ends = torch.tensor([100, 256], dtype=torch.int32, device="cuda")
        a, b, out = (
            operand(operands.A, 256, 128)[0],
            tensor(operands.B, 2, 256, 128),
            operand(operands.out, 256, 256)[0],
        )
        b = b.transpose(1, 2) if operands.B.stride[-2] == 1 else b.reshape(2, 128, 256)
        arguments = of.IndexPtrGroupedGemmArguments(a, b, out, operands.accumulator_type, ends, "m")
    else:
        a, b = operand(operands.A, 256, 128), operand(operands.B, 128, 256, along_k=False)
        arguments = of.GemmArguments(a, b, operand(operands.out, 256, 256), operands.accumulator_type)
    if not (status := operator.supports(arguments, of.TargetSm.ensure(TARGET))):
        pytest.skip(str(status))
    operator.run(arguments, operator.compile(arguments))
