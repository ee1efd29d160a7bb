"""Clusters of one launch in several processes: results as in one."""

from __future__ import annotations

import gc
import os
import signal
import weakref
from typing import Any

import numpy as np
import pytest
from snippets import kernel_text

import ptxsim
from ptxsim.core import shares
from ptxsim.core.cluster import Cluster

CTAS = 300  # more than the numbers that the access history gives to clusters
X, OUT = np.zeros(CTAS * 64, np.uint32), np.zeros(CTAS * 64 + 1, np.uint32)  # whose addresses are in messages
OWN = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
mad.lo.u32 %r3, %r1, 64, %r2; mul.wide.u32 %d3, %r3, 4; add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;
mov.u32 %r5, dyn; mad.lo.u32 %r6, %r2, 4, %r5;"""
# each CTA doubles 64 words; warps meet at an mbarrier
BODY = f"""{OWN} setp.ne.u32 %p1, %r2, 0; @%p1 bra B; mbarrier.init.shared.b64 [%r5+1024], 64; B: bar.sync 0;
ld.global.u32 %r7, [%d5]; EXTRA add.u32 %r7, %r7, %r7; st.shared.u32 [%r6], %r7;
mbarrier.arrive.shared.b64 %d7, [%r5+1024];
W: mbarrier.try_wait.parity.shared.b64 %p2, [%r5+1024], 0; @!%p2 bra W;
ld.shared.u32 %r8, [%r6]; st.global.u32 [%d4], %r8;"""
EXTRA = {
    "right": "",
    "unwritten": "ld.shared.u32 %r7, [%r6+512];",  # a finding of every CTA
    "later CTAs unwritten": "setp.lt.u32 %p3, %r1, 200; @%p3 bra L; ld.shared.u32 %r7, [%r6+512]; L:",
    "race of warps": "st.shared.u32 [%r5], %r2;",
    "race of clusters": "st.global.u32 [%d1], %r1;",
    "race of the last cluster": "setp.lt.u32 %p3, %r1, 299; @%p3 bra L; ld.global.u32 %r9, [%d1+4]; L:",
    "deadlock of one CTA": "setp.ne.u32 %p3, %r1, 250; @%p3 bra L; M: bar.sync 1, 128; L:",
    "error of one CTA": "setp.ne.u32 %p3, %r1, 250; @%p3 bra L; ld.global.u32 %r9, [%d3]; L:",
}


@pytest.fixture
def forks(monkeypatch) -> list[int]:
    """Processes that were started, and no launch too small for them."""
    monkeypatch.setattr(shares, "WORTH_S", 0.0)
    started: list[int] = []
    start = shares.start

    def counted(work) -> Any:
        process, connection = start(work)
        started.append(process.pid)
        return process, connection

    monkeypatch.setattr(shares, "start", counted)
    return started


def result_of(extra: str, processes: int | None, body: str = BODY, **options) -> tuple:
    """Effects of a kernel, and of an early launch that uses its memory."""
    X[:], OUT[:] = np.arange(CTAS * 64), 0
    module = ptxsim.Module.from_text(kernel_text(body.replace("EXTRA", extra)))
    first = ptxsim.launch(module, "k", (CTAS,), (64,), (OUT, X), dynamic_shared=2048)
    after = "ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.global.u32 %r1, [%d1+4]; st.global.u32 [%d2+8], %r1;"
    module = ptxsim.Module.from_text(kernel_text(after))
    second = ptxsim.launch(module, "k", (1,), (32,), (OUT, X))
    second.attributes["attribute_6"] = (1,)
    result = ptxsim.run([first, second], processes=processes, **options)
    return result.findings, result.counts, result.coverage, OUT.tolist(), X.tolist()


@pytest.mark.parametrize("name", EXTRA)
@pytest.mark.parametrize("schedule", ["random", "warps"])
def test_several_processes_give_the_results_of_one(name, schedule, forks) -> None:
    alone = result_of(EXTRA[name], 1, schedule=schedule)
    assert not forks
    assert result_of(EXTRA[name], 3, schedule=schedule) == alone
    assert len(forks) == 2
    if name == "right":
        assert [finding.kind for finding in alone[0]] == ["race"] * 2 and alone[3][5] == 10
    elif "race of" in name or "deadlock" in name:
        assert name.split()[0] in {finding.kind for finding in alone[0]}


def test_a_share_that_reads_what_another_wrote_gets_the_new_value(forks) -> None:
    chain = "setp.eq.u32 %p3, %r1, 0; @%p3 bra L; ld.global.u32 %r9, [%d4+-256]; add.u32 %r7, %r7, %r9; L:"
    alone = result_of(chain, 1)
    assert result_of(chain, 2) == alone and forks and alone[3][64 * 299] > 2**17


@pytest.mark.parametrize("first", [0, 150])
def test_a_killed_process_changes_nothing(first, forks, monkeypatch) -> None:
    alone, parent, run = result_of("", 1), os.getpid(), shares._run_share

    def killed(machine, skipped, size) -> Any:
        assert os.getpid() != parent
        if skipped >= first:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(machine, skipped, size)

    monkeypatch.setattr(shares, "_run_share", killed)
    assert result_of("", 3) == alone and len(forks) == 2


@pytest.mark.parametrize(
    ("extra", "options"),
    [
        ("ld.acquire.gpu.global.u32 %r9, [%d1+76800];", {}),
        ("atom.global.add.u32 %r9, [%d1+76800], 1;", {}),
        ("mov.u32 %r9, %clock;", {}),
        ("", {"checks": ()}),
        ("", {"track": True}),
        ("", {"trace": len}),
    ],
)
def test_clusters_that_may_depend_run_in_one_process(extra, options, forks) -> None:
    result_of(extra, 2, **options)
    assert not forks


def test_a_small_launch_runs_in_one_process(forks, monkeypatch) -> None:
    monkeypatch.setattr(shares, "WORTH_S", 1e9)
    result_of("", 2)
    assert not forks


@pytest.mark.parametrize(("worker", "load", "expected"), [("gw0", 0, 0), ("", 1000, 0), ("", 1, 1)])
def test_a_worker_of_pytest_and_a_busy_machine_use_one_process(worker, load, expected, forks, monkeypatch) -> None:
    monkeypatch.delenv("PTXSIM_PROCESSES", raising=False)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    if worker:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
    result_of("", None)
    assert len(forks) == expected
    with pytest.raises(ValueError, match="processes 0: expected one or more"):
        result_of("", 0)


def test_a_finished_cluster_is_freed_without_garbage_collection(monkeypatch) -> None:
    freed: list[int] = []
    release = Cluster.release

    def watched(cluster: Cluster) -> None:
        weakref.finalize(cluster.ctas[0].shared, freed.append, 1)
        release(cluster)

    monkeypatch.setattr(Cluster, "release", watched)
    gc.disable()
    try:
        result_of("", 1, schedule="warps")
    finally:
        gc.enable()
    assert len(freed) >= CTAS


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["random", "warps", "tma_late"])
def test_mla_decode_in_several_processes_equals_one(built, schedule, forks) -> None:
    from test_examples import mla_capture, mla_inputs  # they need PyTorch

    def effects(processes: int) -> tuple:
        x = mla_inputs(2, 1024, 4)
        result = ptxsim.run(mla_capture(built("mla_fp16"), x), schedule, processes=processes)
        return result.findings, result.counts, result.coverage, x["o"].float().tolist(), x["lse"].tolist()

    alone = effects(1)
    assert not forks and effects(2) == alone and forks
