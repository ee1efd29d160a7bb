"""Planted bugs.

Every one must be caught by at least one default schedule, and the intact kernel by none.

A mutant edits the PTX after its launches were captured from the intact object. «Caught» is a finding that the intact
kernel does not have, or a wrong output.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import test_examples
import torch
from test_examples import EXCHANGE, capture, capture_gemm, fmha_of, mla_capture, mla_inputs, mla_reference, nans

import ptxsim

WAIT = re.compile(
    r"\{\s*\.reg \.pred\s+P1;[^;]*LAB_WAIT:[^;]*mbarrier\.try_wait\.parity\.shared\.b64 P1, \[([^\]]*)\], ["
    r"^;]*;.*?DONE:\s*\}",
    re.S,
)


def without_waits(*which: int) -> Callable[[str], str]:
    """Delete the waits with these numbers, in the order of the text."""

    def edit(text: str) -> str:
        spots = list(WAIT.finditer(text))
        for n in sorted(which, reverse=True):
            text = text[: spots[n].start()] + text[spots[n].end() :]
        return text

    return edit


def swap(pattern: str, new: str, nth: int | None = None) -> Callable[[str], str]:
    """Replace every match of a pattern, or only the nth.

    A pattern that matches nothing is an error of the test.
    """

    def edit(text: str) -> str:
        spots = list(re.finditer(pattern, text))
        assert spots, pattern
        for m in reversed(spots if nth is None else [spots[nth]]):
            text = text[: m.start()] + m.expand(new) + text[m.end() :]
        return text

    return edit


def mutant(folder: Path, launches: list[ptxsim.Launch], edit: Callable[[str], str] | None) -> list[ptxsim.Launch]:
    text = (folder / "kernel.ptx").read_text()
    if edit is not None:
        changed = edit(text)
        assert changed != text
        text = changed
    module = ptxsim.Module.from_text(text)
    return [dataclasses.replace(x, module=module, kernel=module.kernels[x.name]) for x in launches]


def caught(
    folder: Path, make: Callable, edit: Callable[[str], str] | None, schedules=ptxsim.DEFAULT_SCHEDULES
) -> str | None:
    """How the first schedule that notices anything does so."""
    for name, seed in schedules:
        launches, wrong = make()
        result = ptxsim.run(mutant(folder, launches, edit), schedule=name, seed=seed)
        fresh = [f for f in result.findings if not re.search(EXCHANGE, f.message)]
        if fresh:
            return f"{name} {seed}: {fresh[0]}"
        if wrong():
            return f"{name} {seed}: wrong output"
    return None


def gemm_0(folder: Path) -> Callable:
    def make():
        torch.manual_seed(1)
        a, b, c = torch.randn(128, 384).half(), torch.randn(256, 384).half(), nans(128, 256)
        want = a.float() @ b.float().T
        return capture_gemm(folder, a, b, c), lambda: not torch.allclose(c.float(), want, rtol=2**-9, atol=1e-2)

    return make


GEMM_0 = {
    "full-barrier waits deleted": without_waits(3, 5, 7),
    "accumulator wait deleted": without_waits(8),
    "empty waits deleted, stage reused early": without_waits(2, 4, 6),
    "transaction count too small": swap("49152", "49136"),
    "transaction count too large": swap("49152", "49168"),
    "one transaction count too small": swap("49152", "32768", 0),
    "arrival count of a full barrier off by one": swap(r"mov\.b32\s+(%r62), 1;", r"mov.b32 \1, 2;"),
    "operand index shifted": swap(r"add\.s32\s+%r117, %r26, 2;", "add.s32 %r117, %r26, 4;"),
    "operand outside shared memory": swap(r"add\.s32\s+%r117, %r26, 2;", "add.s32 %r117, %r26, 9000;"),
    "accumulator commit deleted": swap(r"tcgen05\.commit[^;]*\[%r242\];", "", 0),
    "stage commit deleted": swap(r"tcgen05\.commit[^;]*\[%r23\+32\];", "", 0),
    "TMA coordinate shifted": swap(r"\[%rd17, \{%r408, %r7\}\]", "[%rd17, {%r7, %r408}]"),
    "TMA destination shifted": swap(r"\[%r16\+65664\]", "[%r16+65152]"),
    "barriers after the set-up deleted": swap(r"bar\.sync\s+(0|1, 128);", ""),
    "too few columns allocated": swap(r"mov\.b32\s+%r60, 512;", "mov.b32 %r60, 128;"),
    "tensor memory leaked": swap(r"tcgen05\.dealloc[^;]*;", ""),
    "wrong warp's tensor-memory lanes": swap(r"shl\.b32\s+%r9, %r3, 21;", "shl.b32 %r9, %r3, 20;"),
    "first MMA accumulates onto nothing": swap(r", %p103;", ", 1;"),
    "fence of the mbarriers' initialisation dropped": swap(r"fence\.mbarrier_init[^;]*;", ""),
    "arrive.expect_tx deleted": swap(r"mbarrier\.arrive\.expect_tx[^;]*;", "", 0),
    "output index shifted": swap(r"st\.global\.b16\s+\[(%rd\d+)\+(\d+)\]", "st.global.b16 [%rd100+131072]", 3),
}


@pytest.mark.parametrize("name", GEMM_0)
def test_mutants_of_the_tutorial_gemm(built, name) -> None:
    folder = built("fp16_gemm_0")
    edit = GEMM_0[name]
    how = caught(folder, gemm_0(folder), edit)
    assert how, f"«{name}» went unnoticed"
    print(name, "→", how)


def persistent(folder: Path, n: int = 256) -> Callable:
    def make():
        torch.manual_seed(2)
        m, k, batch = 512, 128, 2
        a, b = (
            torch.randn(batch, m, k).bfloat16().permute(1, 2, 0),
            torch.randn(batch, n, k).bfloat16().permute(1, 2, 0),
        )
        c = nans(batch, m, n, dtype=torch.bfloat16).permute(1, 2, 0)
        want = torch.einsum("mkl,nkl->mnl", a.float(), b.float())
        return capture_gemm(folder, a, b, c), lambda: not torch.allclose(c.float(), want, rtol=2**-6, atol=5e-2)

    return make


PERSISTENT = {
    "proxy fence dropped": swap(r"fence\.proxy\.async\.shared::cta;", ""),
    "store staging reused early": swap(r"cp\.async\.bulk\.wait_group\.read\s+3;", ""),
    "barrier before the TMA store deleted": swap(r"bar\.sync\s+1, 128;", "", 0),
    "commit reaches one CTA only": swap(r"(tcgen05\.commit[^;]*\[%r249\+64\]), %rs1;", r"\1, 1;"),
    "accumulator released to the wrong CTA": swap(
        r"(?s)mapa\.shared::cluster\.u32\s+%r593, %r592, %r56;", "mov.u32 %r593, %r592;"
    ),
    "store at the wrong coordinate": swap(r"\[%rd63, \{%r622, %r64, %r61\}\]", "[%rd63, {%r64, %r622, %r61}]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PERSISTENT)
def test_mutants_of_the_persistent_gemm(built, name) -> None:
    folder = built("persistent_gemm", "pair")
    how = caught(folder, persistent(folder), PERSISTENT[name])
    assert how, f"«{name}» went unnoticed"
    print(name, "→", how)


def rmsnorm(folder: Path) -> Callable:
    def make():
        torch.manual_seed(3)
        x, w, o = torch.randn(2, 16384).bfloat16(), torch.randn(16384).bfloat16(), nans(2, 16384, dtype=torch.bfloat16)
        want = x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6) * w.float()
        args = (x, w, o, 1e-6, 0)
        return capture(folder, "rmsnorm", args), lambda: not torch.allclose(o.float(), want, rtol=2**-7, atol=1e-5)

    return make


RMSNORM = {
    "cp.async wait deleted": swap(r"cp\.async\.wait_group\s+0;", ""),
    "barrier of the reduction deleted": swap(r"bar\.sync\s+0;", "", 0),
    "one copy deleted": swap(r"cp\.async\.ca\.shared\.global \[%r4\+8192\][^;]*;", ""),
    "shuffle distance wrong": swap(
        r"(shfl\.sync\.bfly\.b32\s+%r\d+\|?%?p?\d*, %r\d+), 8,|(shfl\.sync\.bfly\.b32[^;]*?), 8,", r"\1\2, 4,", 0
    ),
}


@pytest.mark.parametrize("name", RMSNORM)
def test_mutants_of_rmsnorm(name) -> None:
    folder = test_examples.rmsnorm(16384)
    how = caught(folder, rmsnorm(folder), RMSNORM[name])
    assert how, f"«{name}» went unnoticed"
    print(name, "→", how)


def mla(folder: Path, kv: int = 256) -> Callable:
    def make():
        x = mla_inputs(1, kv, 1)
        want, _ = mla_reference(x)
        return mla_capture(folder, x), lambda: not torch.allclose(x["o"][:, :, 0].float(), want, rtol=1e-3, atol=1e-3)

    return make


MLA = {
    "proxy fences of P dropped": swap(r"fence\.proxy\.async\.shared::cta;", ""),
    "tcgen05.wait::st dropped": swap(r"tcgen05\.wait::st\.sync\.aligned;", ""),
    "exchange barrier deleted": swap(r"bar\.sync\s+2, 128;", ""),
    "page-table arrival deleted": swap(r"cp\.async\.mbarrier\.arrive\.noinc\.shared\.b64\s+\[[^\]]*\];", "", 0),
    "tensor memory leaked": swap(r"tcgen05\.dealloc[^;]*;", ""),
    "registers not given back": swap(r"setmaxnreg\.dec[^;]*;", ""),
    "too many registers asked for": swap(r"(setmaxnreg\.inc[^;]*)192;", r"\g<1>208;"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MLA)
def test_mutants_of_mla_decode(built, name) -> None:
    folder = built("mla_fp16")
    how = caught(folder, mla(folder), MLA[name])
    assert how, f"«{name}» went unnoticed"
    print(name, "→", how)


def fmha(folder: Path) -> Callable:
    def make():
        torch.manual_seed(4)
        q, k, v = (torch.randn(1, 512, h, 128).half() for h in (2, 1, 1))
        o, scale = nans(1, 512, 2, 128), 128**-0.5
        heads = [x.float().transpose(1, 2).expand(-1, 2, -1, -1) for x in (q, k, v)]
        want = torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2)
        launches = capture(folder, "fmha", (q, k, v, o, scale / math.log(2), scale, 0))
        return launches, lambda: not torch.allclose(o.float(), want, rtol=1e-2, atol=3e-3)

    return make


def released_behind_the_load(text: str) -> str:
    """Signal the accumulator's empty barrier after the last tcgen05.ld, before its wait."""
    text, n = re.subn(r"mbarrier\.arrive\.shared::cluster\.b64 _, \[%r593\], %r595;", "", text)
    release = """ { .reg .pred q1, q2; .reg .b32 a1, a2; setp.ne.b32 q1, %r625, 3; @q1 bra KEEP; elect.sync a1|q2, -1;
    @!q2 bra KEEP; add.u32 a1, %r65, 144; mapa.shared::cluster.u32 a2, a1, %r56;
    mbarrier.arrive.shared::cluster.b64 _, [a2], 1; KEEP: }"""
    text, m = re.subn(r"tcgen05\.ld[^;]*;", lambda result: result[0] + release, text)
    assert n == m == 1
    return text


@pytest.mark.slow
def test_an_accumulator_released_before_its_load_is_waited_for(built) -> None:
    folder = built("persistent_gemm", "pair")
    make = persistent(folder, 1024)  # so many tiles that both accumulators are used again
    assert caught(folder, make, None) is None
    how = caught(folder, make, released_behind_the_load)
    assert how and "nothing orders that after the read by tcgen05.ld" in how


def hopper(folder: Path) -> Callable:
    def make():
        torch.manual_seed(5)
        a, b = (torch.randn(1, x, 1024).half().permute(1, 2, 0) for x in (192, 160))
        c = nans(1, 192, 160).permute(1, 2, 0)
        want = torch.einsum("mkl,nkl->mnl", a.float(), b.float())
        return capture_gemm(folder, a, b, c), lambda: not torch.allclose(c.float(), want, rtol=2**-9, atol=2e-2)

    return make


HOPPER = {
    "wgmma.wait_group of the accumulator deleted": swap(r"wgmma\.wait_group\.sync\.aligned\s+0;", ""),
    "stage released while its product runs": swap(r"wgmma\.wait_group\.sync\.aligned\s+1;", ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOPPER)
def test_mutants_of_the_hopper_gemm(built, name) -> None:
    folder = built("hopper_gemm", "f16")
    how = caught(folder, hopper(folder), HOPPER[name])
    assert how, f"«{name}» went unnoticed"
    print(name, "→", how)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel,part,make",
    [
        ("fp16_gemm_0", "", gemm_0),
        ("persistent_gemm", "pair", persistent),
        (test_examples.rmsnorm, 16384, rmsnorm),
        ("mla_fp16", "", mla),
        (fmha_of, 512, fmha),
        ("hopper_gemm", "f16", hopper),
    ],
)
def test_no_default_schedule_notices_anything_in_the_intact_kernel(built, kernel, part, make) -> None:
    folder = kernel(part) if callable(kernel) else built(kernel, part)
    assert caught(folder, make(folder), None) is None
