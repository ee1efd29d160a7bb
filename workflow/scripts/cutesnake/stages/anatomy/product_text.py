"""Matrix products and their operands' descriptors in words."""

from collections.abc import Mapping
from typing import Any

_WIDTHS = {1: "no swizzle", 2: "32-byte swizzle", 4: "64-byte swizzle", 8: "128-byte swizzle"}
MOVED = {"load": "loaded", "store": "stored", "reduce": "reduced into"}  # what TMA does with boxes, by a role
_MAJOR = {"k": "K-major", "mn": "M- or N-major"}


def product_summary(product: Mapping[str, Any]) -> str:
    """Describe D += A · B with shapes, types, places and B's layout."""
    m, n, k = product["shape"]
    types, major = product["types"], product["major"]
    group = {None: "", 1: ", by one CTA", 2: ", by a pair of CTAs"}[product["cta_group"]]
    scaled = f", {product['scale_factors']} scale factors per row" if product["scale_factors"] else ""
    kind = f" of kind {product['kind']}" if product["kind"] else ""
    a = f"A ({m} x {k} {types['a']}, {_MAJOR[major['a']]}, {product['a_in']})"
    b = f"B ({n} x {k} {types['b']}, {_MAJOR[major['b']]}, {product['b_in']})"
    message = (
        f"{product['instruction']}{kind}: D ({m} x {n} {types['d']}, {product['d_in']}) += {a} · {b}{group}{scaled}"
    )
    bits = product["descriptor_bits"]
    return (
        f"{message}; B's descriptor: {descriptor_summary(int(bits, 16), product['kind'] is not None)}"
        if bits
        else message
    )


def descriptor_summary(bits: int, sm100: bool) -> str:
    """Describe a 64-bit shared-memory descriptor (PTX ISA, «Matrix descriptor»)."""
    from ptxsim.descriptors import matrix  # not where only MOVED is read: it takes 0.2 s

    try:
        result = matrix(bits, sm100)
    except ValueError:
        return f"{bits:#018x}, not understood"
    swizzle = _WIDTHS[result.width] + (" in atoms of 32 bytes" if result.wide_atom else "")
    return f"{swizzle}, {result.sbo} B between groups of eight rows, leading offset {result.lbo} B"
