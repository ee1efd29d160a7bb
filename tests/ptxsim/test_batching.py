"""Merged instructions of a block give what they give one by one."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from snippets import run_kernel

from ptxsim.frontend import batching
from ptxsim.isa import mma

FORMS = (
    "fma.rn.f32 {d}, {a}, {b}, {c}",
    "max.f32 {d}, {a}, {b}",
    "ex2.approx.ftz.f32 {d}, {a}",
    "mul.f32 {d}, {a}, {b}",
)
REGISTERS = [f"%f{n}" for n in range(12)]


def _program(seed: int) -> str:
    """Return 150 instructions whose registers depend on each other in every way."""
    draw = random.Random(seed)
    lines = ["ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 48, %d1;"]
    lines += [f"ld.global.f32 {register}, [%d2+{4 * n}];" for n, register in enumerate(REGISTERS)]
    for _ in range(150):
        names = dict(zip("abcd", draw.choices(REGISTERS, k=4), strict=True))
        lines.append(draw.choice(FORMS).format(**names) + ";")
    return "\n".join(lines + [f"st.global.f32 [%d2+{4 * n}], {x};" for n, x in enumerate(REGISTERS)])


@pytest.mark.parametrize("seed", range(4))
def test_merged_instructions_keep_their_dependencies(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    results, merged = [], []
    plain = batching._together

    def together(lines: list, constant: Callable[[tuple[int, ...]], str]) -> list[str]:
        merged.append(len(lines))
        return plain(lines, constant)

    monkeypatch.setattr(batching, "_together", together)
    for least in (2, 10**6):
        monkeypatch.setattr(batching, "LEAST", least)
        x = np.random.default_rng(seed).standard_normal((64, 12)).astype(np.float32)
        run_kernel(_program(seed), x, threads=64, registers=".reg .f32 %f<12>;")
        results.append(x.tobytes())
    assert max(merged) >= 2
    assert results[0] == results[1]


PRODUCTS = {  # form of mma.sync → registers of D, A, B, and whether any bits may be an operand
    "m16n8k16.row.col.f32.bf16.bf16.f32": (4, 4, 2, False),
    "m16n8k16.row.col.f16.f16.f16.f16": (2, 4, 2, False),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (4, 4, 2, False),
    "m16n8k32.row.col.f32.e4m3.e4m3.f32": (4, 4, 2, False),
    "m16n8k16.row.col.f32.f16.f16.f32": (4, 4, 2, False),
    "m16n8k32.row.col.s32.s8.u8.s32": (4, 4, 2, True),
}


def _products(forms: list[str], seed: int) -> str:
    """Return 60 mma.sync and movs: operands in %r20 to %r39, accumulators in %r40 to %r59."""
    draw = random.Random(seed)
    lines = ["ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 160, %d1;"]
    lines += [f"ld.global.b32 %r{n}, [%d2+{4 * n - 80}];" for n in range(20, 60)]
    for _ in range(60):
        form = draw.choice(forms)
        d, a, b, bits = PRODUCTS[form]
        start, c = 40 + d * draw.randrange(20 // d), 40 + d * draw.randrange(20 // d)
        pool = range(20, 60) if bits else range(20, 40)
        vectors = [range(start, start + d), draw.sample(pool, a), draw.sample(pool, b), range(c, c + d)]
        operands = ", ".join("{" + ", ".join(f"%r{n}" for n in x) + "}" for x in vectors)
        lines.append(f"mma.sync.aligned.{form} {operands};")
        if draw.random() < 0.2:
            lines.append("mov.b32 %r{}, %r{};".format(*draw.choices(range(20, 40), k=2)))
    return "\n".join(lines + [f"st.global.b32 [%d2+{4 * n - 80}], %r{n};" for n in range(20, 60)])


@pytest.mark.parametrize("threads", [32, 640])
@pytest.mark.parametrize(
    "forms", [*([form] for form in PRODUCTS), [*PRODUCTS][::4]], ids=[*(x.split("col.")[1] for x in PRODUCTS), "mixed"]
)
def test_merged_products_are_those_of_single_instructions(
    forms: list[str], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, shapes, results = np.random.default_rng(3), [], []
    start = rng.integers(0, 2**32, (threads, 40), dtype=np.uint32)
    start &= np.uint32(0xBFBFBFBF)  # no NaN of any type
    start[:, 20:] = rng.standard_normal((threads, 20)).astype(np.float32).view(np.uint32) if "f32" in forms[0] else 0
    plain = batching._products
    monkeypatch.setattr(mma, "_LANES", 1024)

    def singly(run: list, constant: Callable) -> list[str]:
        return [plain([[line]], constant) if "warp_products" in line.text else line.text for line in run]

    def together(levels: list[list], constant: Callable) -> str:
        shapes.append((len(levels), len(levels[0])))
        return plain(levels, constant)

    monkeypatch.setattr(batching, "_products", together)
    for schedule in (batching._scheduled, singly):
        monkeypatch.setattr(batching, "_scheduled", schedule)
        x = start.copy()
        counts = run_kernel(_products(forms, 5), x, threads=threads).counts[0]
        results.append((x.tobytes(), counts.mma_instructions, counts.mma_flops))
    assert all(max(x) > 1 for x in zip(*shapes, strict=True))
    assert results[0] == results[1]
    assert (x != start).mean() > 0.2
    if "s32" not in forms[0]:
        assert np.isfinite(x[:, 20:].view(np.float16 if "f16.f16.f16.f16" in forms[0] else np.float32)).mean() > 0.5
