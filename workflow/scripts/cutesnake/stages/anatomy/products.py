"""Group matrix products by form: roles, source lines, and count in the run."""

import re
from collections.abc import Sequence
from typing import Any

from cutesnake.stages.anatomy.code import Code
from cutesnake.stages.anatomy.product_text import product_summary
from cutesnake.stages.anatomy.roles import Role
from cutesnake.stages.anatomy.watch import Seen

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def products(code: Code, seen: Seen | None, roles: Sequence[Role] | None) -> list[dict[str, Any]] | None:
    """Return an entry of a record's `products` per form; None without a run."""
    if seen is None or roles is None:
        return None
    result = [*_watched(code, seen, roles), *_of_a_warp(code, roles)]
    return [{**product, "words": product_summary(product)} for product in result]


def _watched(code: Code, seen: Seen, roles: Sequence[Role]) -> list[dict[str, Any]]:
    """Return wgmma and tcgen05.mma forms of the run, regardless of descriptor bits."""
    merged: dict[str, dict[str, Any]] = {}
    for one in seen.products.values():
        form = {key: value for key, value in one.form.items() if key != "descriptor_bits"}
        first = {**form, "descriptor_bits": one.form["descriptor_bits"], "issued": 0, "lines": [], "roles": []}
        kept = merged.setdefault(str(form), first)
        kept["issued"] += sum(one.warps.values())
        lines = code.sources([one.at])
        kept["lines"] = sorted({*kept["lines"], *lines}) if kept["lines"] else lines
        warps = {warp for _, warp in one.warps}
        kept["roles"] = sorted({*kept["roles"], *(role.name for role in roles if warps & set(role.warps))})
    return list(merged.values())


def _of_a_warp(code: Code, roles: Sequence[Role]) -> list[dict[str, Any]]:
    """Return mma.sync forms from the code: runs do not count them."""
    by_shape: dict[str, list[int]] = {}
    for at in code.places("product"):
        instruction = code.instructions[at]
        if instruction.base == "mma":
            for shape in filter(_SHAPE.fullmatch, instruction.parts):
                by_shape.setdefault(shape, []).append(at)
    result = []
    for shape, places in sorted(by_shape.items()):
        d, a, b, _ = code.instructions[places[0]].parts[-4:]
        result.append(
            {
                **{"instruction": "mma.sync", "shape": [int(size) for size in _SHAPE.findall(shape)[0]], "kind": None},
                **{"cta_group": None, "types": {"a": a, "b": b, "d": d}},
                **{"a_in": "registers", "b_in": "registers", "d_in": "registers", "major": {"a": "k", "b": "k"}},
                **{"scale_factors": 0, "descriptor_bits": None, "issued": None, "lines": code.sources(places)},
                "roles": [role.name for role in roles if role.does(code, "product")],
            }
        )
    return result
