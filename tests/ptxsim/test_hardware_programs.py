"""The programs meant for a GPU at least run here: each is translated, leaves no finding and changes a buffer."""

from __future__ import annotations

import numpy as np
import pytest
from hardware import PROGRAMS, simulate

CHUNKS = [PROGRAMS[n : n + 50] for n in range(0, len(PROGRAMS), 50)]


@pytest.mark.parametrize("chunk", CHUNKS, ids=[f"from {c[0].name[:40]}" for c in CHUNKS])
def test_programs_run(chunk) -> None:
    for program in chunk:
        buffers, findings = simulate(program)
        assert not findings, (program.name, str(findings[0]))
        before = [*program.sources(), program.poison()]
        same = all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(before, buffers, strict=True))
        assert not same, program.name
