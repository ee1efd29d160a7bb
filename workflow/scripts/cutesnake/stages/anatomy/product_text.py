"""Matrix products and their operands' descriptors in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WIDTHS = {1: "no swizzle", 2: "32-byte swizzle", 4: "64-byte swizzle", 8: "128-byte swizzle"}
MOVED = {"load": "loaded", "store": "stored", "reduce": "reduced into"}  # what TMA does with boxes, by a role
_MAJOR = {"k": "K-major", "mn": "M- or N-major"}


def product_words(product: Mapping[str, Any]) -> str:
    """D += A · B with shapes, types and places, and how B lies in shared memory."""
    m, n, k = product["shape"]
    types, major = product["types"], product["major"]
    group = {None: "", 1: ", by one CTA", 2: ", by a pair of CTAs"}[product["cta_group"]]
    scaled = f", {product['scale_factors']} scale factors per row" if product["scale_factors"] else ""
    kind = f" of kind {product['kind']}" if product["kind"] else ""
    a = f"A ({m} x {k} {types['a']}, {_MAJOR[major['a']]}, {product['a_in']})"
    b = f"B ({n} x {k} {types['b']}, {_MAJOR[major['b']]}, {product['b_in']})"
    said = f"{product['instruction']}{kind}: D ({m} x {n} {types['d']}, {product['d_in']}) += {a} · {b}{group}{scaled}"
    bits = product["descriptor_bits"]
    return f"{said}; B's descriptor: {descriptor_words(int(bits, 16), product['kind'] is not None)}" if bits else said


def descriptor_words(bits: int, sm100: bool) -> str:
    """A 64-bit descriptor of an operand in shared memory (PTX ISA, «Matrix descriptor»)."""
    from ptxsim.descriptors import matrix  # not where only MOVED is read: it takes 0.2 s

    try:
        found = matrix(bits, sm100)
    except ValueError:
        return f"{bits:#018x}, not understood"
    swizzle = _WIDTHS[found.width] + (" in atoms of 32 bytes" if found.wide_atom else "")
    return f"{swizzle}, {found.sbo} B between groups of eight rows, leading offset {found.lbo} B"
