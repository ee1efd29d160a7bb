"""Planted bugs in kernels of the catalogue.

An edit of the PTX each, found on the short list with its schedules.

What is asked is not only that a bug is found but that the message says what it is: each names a part of it.
"""

from __future__ import annotations

import re

import pytest

from planted import Place, check

KERNELS = {
    "Hopper GEMM": Place("gemm", "cutlass_sm90", "sm_90a", {"m": 200, "n": 264, "k": 136}),
    "Hopper GEMM that comes round": Place("gemm", "cutlass_sm90", "sm_90a", {"m": 200, "n": 264, "k": 640}),
    "persistent GEMM": Place("gemm", "cutlass_persistent", "sm_100a", {"m": 200, "n": 264, "k": 136}),
    "attention": Place("fmha", "cutlass_sm100", "sm_100a", {"batch": 1, "length": 256, "heads": 2, "kv_heads": 1}),
    "dependent launch": Place("dependent_launch", "cutlass_pdl", "sm_100a", {"rows": 37, "columns": 256}),
}
# what is edited: a pattern, what replaces it, and per kernel words of a finding
MUTANTS = {
    "wgmma.fence removed": (r"wgmma\.fence[^;]*;", "", {"Hopper GEMM": "no wgmma.fence comes before the first"}),
    "wait for the launch before removed": (
        r"griddepcontrol\.wait;",
        "",
        {"dependent launch": "no griddepcontrol.wait comes before that"},
    ),
    "waits for bulk stores removed": (
        r"cp\.async\.bulk\.wait_group[^;]*;",
        "",
        {
            "Hopper GEMM": "after the read by a bulk store",
            "persistent GEMM": "after the read by a bulk store",
            "attention": "exits without cp.async.bulk.wait_group.read",
        },
    ),
    "wait for products removed": (r"wgmma\.wait_group[^;]*;", "", {"Hopper GEMM": "until wgmma.wait_group"}),
    "tensor memory freed twice": (
        r"(tcgen05\.dealloc[^;]*;)",
        r"\1 \1",
        dict.fromkeys(("persistent GEMM", "attention"), "leak: tcgen05.dealloc"),
    ),
    "tensor memory never freed": (
        r"tcgen05\.dealloc[^;]*;",
        "",
        dict.fromkeys(("persistent GEMM", "attention"), "ends with tensor memory allocated"),
    ),
    "barriers removed": (
        r"bar\.sync[^;]*;",
        "",
        {"Hopper GEMM": "nothing orders that after", "persistent GEMM": "which nobody wrote"},
    ),
    "expected bytes never announced": (
        r"mbarrier\.arrive\.expect_tx[^;]*;",
        "",
        dict.fromkeys(("Hopper GEMM", "persistent GEMM", "attention"), "deadlock"),
    ),
    "commits removed": (r"tcgen05\.commit[^;]*;", "", dict.fromkeys(("persistent GEMM", "attention"), "deadlock")),
    "proxy fences removed": (
        r"fence\.proxy\.async[^;]*;",
        "",
        dict.fromkeys(("Hopper GEMM", "persistent GEMM"), "no fence.proxy.async lies between them"),
    ),
    "fence of initialisation removed": (
        r"fence\.mbarrier_init[^;]*;",
        "",
        dict.fromkeys(("Hopper GEMM", "persistent GEMM"), "initialised without fence.mbarrier_init"),
    ),
    "arrivals removed": (r"mbarrier\.arrive\.shared[^;]*;", "", {"persistent GEMM": "deadlock"}),
    "releases removed": (
        r"mbarrier\.arrive\.(?!expect)[^;]*;",
        "",
        {"Hopper GEMM that comes round": "nobody has ever arrived there"},
    ),
    "waits of the cluster barrier removed": (
        r"barrier\.cluster\.wait[^;]*;",
        "",
        {"persistent GEMM": "nothing orders that after its initialisation by warp 0"},
    ),
}
PLANTED = [(kernel, name) for name, (_, _, message) in MUTANTS.items() for kernel in message]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "name"), PLANTED)
def test_a_planted_bug_is_found_and_named(kernel, name) -> None:
    pattern, new, message = MUTANTS[name]
    folder = KERNELS[kernel].folder()
    assert re.search(pattern, (folder / "kernel.ptx").read_text())
    result = check(KERNELS[kernel], lambda text: re.sub(pattern, new, text)).findings
    assert any(message[kernel] in finding for finding in result), result[:3]
