"""The public names that a program uses.

Launches from files, run, explore, findings as an error.
"""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from snippets import kernel_text

import ptxsim
from ptxsim.host.linking import compiler

FOLDER = Path(__file__).parent
# Thread 0 stores; a thread of another warp reads it after the barrier, or without one.
SHARED = """mov.u32 %r1, %tid.x; mov.u32 %r2, dyn; setp.ne.u32 %p1, %r1, 0; @%p1 bra GO;
mov.u32 %r3, 7; st.shared.b32 [%r2], %r3; GO: {barrier} setp.ne.u32 %p2, %r1, 32; @%p2 bra END;
ld.param.u64 %d1, [p0]; ld.shared.b32 %r4, [%r2]; st.global.b32 [%d1], %r4; END:"""


def shared(out: np.ndarray, barrier: str = "") -> ptxsim.Launch:
    text = kernel_text(SHARED.format(barrier=barrier), 1)
    return ptxsim.Launch.from_ptx(text, "k", (1,), (64,), (out,), dynamic_shared=64)


def test_a_launch_from_ptx_text_a_file_and_a_module(tmp_path) -> None:
    text = kernel_text("ld.param.u64 %d1, [p0]; mov.u32 %r1, 5; st.global.b32 [%d1], %r1;", 1)
    path = tmp_path / "k.ptx"
    path.write_text(text)
    for ptx in (text, path, str(path), ptxsim.Module.from_text(text)):
        out = np.zeros(1, np.uint32)
        launch = ptxsim.Launch.from_ptx(ptx, None, (1,), (32,), (out,))
        assert isinstance(launch, ptxsim.Launch) and ptxsim.run(launch, schedule="eager", checks=()).ok and out[0] == 5
    assert launch.name == "k"


def test_launches_from_an_object_and_the_ptx_beside_it(tmp_path) -> None:
    try:
        words = compiler()
    except ptxsim.CaptureError as error:
        pytest.skip(str(error))
    obj = tmp_path / "scale.o"
    subprocess.run([*words, "-c", "-fPIC", "-o", obj, FOLDER / "handmade.c"], check=True)
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with pytest.raises(FileNotFoundError, match=r"scale\.ptx"):
        ptxsim.Launch.from_object(obj, "scale", (x, y, 64))
    for ptx in (FOLDER / "handmade.ptx", None):
        (tmp_path / "scale.ptx").write_text((FOLDER / "handmade.ptx").read_text())
        y[:] = 0
        launches = ptxsim.Launch.from_object(obj, "scale", (x, y, 64, None), ptx)
        ptxsim.run(launches).raise_for_findings()
        assert np.array_equal(y, 2 * x)


def test_findings_become_an_error_that_names_them() -> None:
    result = ptxsim.run(shared(np.zeros(1, np.uint32)))
    with pytest.raises(ptxsim.FindingsError, match=r"race: .*PTX line \d+") as caught:
        result.raise_for_findings()
    assert caught.value.findings == result.findings and isinstance(caught.value, AssertionError)


def test_explore_spends_its_budget_on_a_right_kernel_and_names_the_schedule_of_a_wrong_one() -> None:
    out = np.zeros(1, np.uint32)
    right = ptxsim.explore(shared(out, "bar.sync 0;"), 3)
    assert right.ok and len(right.tried) == 3 and out[0] == 7
    assert ptxsim.explore(shared(out, "bar.sync 0;"), timedelta(microseconds=1)).ok
    wrong = ptxsim.explore(shared(out), budget=24, checks=(), judge=lambda: None if out[0] == 7 else f"{out[0]}, not 7")
    assert [x.kind for x in wrong.findings] == ["wrong"] and (wrong.schedule, wrong.seed) == wrong.tried[-1]
    for budget in (0, timedelta(0)):
        with pytest.raises(ValueError, match="budget"):
            ptxsim.explore(shared(out), budget)


def test_hooks_are_reached_from_the_package() -> None:
    assert ptxsim.hooks.watch([shared(np.zeros(1, np.uint32))], lambda launch, code: ptxsim.hooks.Observer()) == [[]]
