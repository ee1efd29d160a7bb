"""Anatomy records of builds that tests compile."""

from __future__ import annotations

from typing import Any

import builds
from cutesnake.model.catalog import load_kernel
from cutesnake.model.targets import TARGETS
from cutesnake.planning import problems
from cutesnake.planning.sweep import make_sweep, read_sweep
from cutesnake.stages.anatomy.record import anatomy_of


def record_of(key: str, **options: Any) -> dict[str, Any]:
    operator, kernel, target, variant = key.split("/")
    small = make_sweep(operator, read_sweep(operator, {})).small()
    module = load_kernel(operator, kernel)
    chosen = problems.chosen(operator, kernel, target, variant, small)
    candidates = (v for ws in small for w in ws if module.supports(w) is None for v in module.variants(w, target))
    build = builds.build(operator, kernel, target, next(v for v in candidates if v.id == variant))
    return anatomy_of(build, chosen, TARGETS[target].simulated_processors, **options)
