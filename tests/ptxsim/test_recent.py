"""A process keeps the translated kernels of its last modules only."""

from __future__ import annotations

import gc
import weakref

from ptxsim import Module
from ptxsim.frontend.program import program_of
from ptxsim.frontend.recent import CAPACITY, Recent

TEXT = """
.version 8.8
.target sm_90a
.address_size 64
.visible .entry nothing() { ret; }
"""


def translated() -> weakref.ref:
    module = Module.from_text(TEXT)
    (kernel,) = module.kernels.values()
    assert program_of(module, kernel) is program_of(module, kernel)
    return weakref.ref(program_of(module, kernel))


def test_kernels_that_were_translated_long_ago_are_let_go() -> None:
    first, *_, last = [translated() for _ in range(CAPACITY + 1)]
    gc.collect()
    assert first() is None
    assert last() is not None


def test_what_is_asked_for_again_stays() -> None:
    recent: Recent[object] = Recent()
    often = recent.get("often", lambda made: True, object)
    for other in range(3 * CAPACITY):
        recent.get(other, lambda made: True, object)
        assert recent.get("often", lambda made: True, object) is often
    assert len(recent) == CAPACITY


def test_what_does_not_fit_its_key_any_more_is_made_anew() -> None:
    recent: Recent[str] = Recent()
    assert recent.get(1, lambda made: True, lambda: "of an object") == "of an object"
    assert recent.get(1, lambda made: False, lambda: "of another with its id") == "of another with its id"
