"""Merged instructions of a block give what they give one by one."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from snippets import run_kernel

from ptxsim.frontend import batching

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
