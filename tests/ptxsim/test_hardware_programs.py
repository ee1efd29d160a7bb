"""The programs meant for a GPU at least run here: each is translated and leaves no finding."""

from __future__ import annotations

import numpy as np
import pytest
from hardware import PROGRAMS, N, inputs, program

import ptxsim


@pytest.mark.parametrize("op,out,kinds,ulps", PROGRAMS, ids=[f"{n}-{p[0].split()[0]}" for n, p in enumerate(PROGRAMS)])
def test_program_runs(op, out, kinds, ulps) -> None:
    sources, result = [inputs(k, n + 1) for n, k in enumerate(kinds)], np.zeros(N, out)
    launch = ptxsim.launch(ptxsim.Module.from_text(program(op, out, kinds)), "k", (1,), (N,), (*sources, result))
    assert not ptxsim.run(launch).findings
    assert result.view(np.uint8).any()
