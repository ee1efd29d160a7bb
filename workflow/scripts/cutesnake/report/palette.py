"""Colours by role, and each kernel's colour and marker, derived from its name and DSL."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
TONES = 5  # in each DSL's range of hues
# DSL -> hues in degrees, first and last, and chroma, in OKLCH (Ottosson, «A perceptual color space for image
# processing», 2020). Kernels of one DSL have related hues on every page; PyTorch, the baseline, is grey.
HUES = {
    "cutile": (165.0, 275.0, 0.12),
    "cute": (25.0, 85.0, 0.14),
    "cuda": (300.0, 350.0, 0.14),
    "torch": (260.0, 260.0, 0.015),
}
OTHER = (110.0, 150.0, 0.11)  # hues of all other DSLs


@dataclass(frozen=True)
class Look:
    """Colour and marker of a kernel; the marker distinguishes kernels without colour."""

    role: str
    marker: str

    @property
    def colour(self) -> str:
        """Light colour, which a plot writes as a CSS variable."""
        return LIGHT[self.role]


def look(kernel: str, dsl: str) -> Look:
    """Return a kernel's look, equal on all pages."""
    tone, marker = _draw(kernel, dsl)
    return Look(_role(dsl, tone), MARKERS[marker])


def looks(kernels: Mapping[str, str]) -> dict[str, Look]:
    """Return the looks of an operator's kernels (name -> DSL).

    Up to as many kernels as markers, no two share a marker. Beyond, no two share both colour and marker. The later
    kernel by name gets the next free one.
    """
    chosen: dict[str, Look] = {}
    for kernel in sorted(kernels):
        mine = look(kernel, kernels[kernel])
        start = MARKERS.index(mine.marker)
        others = (MARKERS[(start + step) % len(MARKERS)] for step in range(len(MARKERS)))
        taken = {one.marker for one in chosen.values()} if len(kernels) <= len(MARKERS) else set()
        free = (Look(mine.role, marker) for marker in others if marker not in taken)
        chosen[kernel] = next((one for one in free if one not in chosen.values()), mine)
    return {kernel: chosen[kernel] for kernel in kernels}


def role_of_dsl(dsl: str) -> str:
    """Return the colour role of a DSL."""
    return _role(dsl, 1)


def _draw(kernel: str, dsl: str) -> tuple[int, int]:
    number = int.from_bytes(hashlib.sha256(f"{dsl}/{kernel}".encode()).digest()[:4], "big")
    return number % TONES, number // TONES % len(MARKERS)


def _role(dsl: str, tone: int) -> str:
    return f"{dsl if dsl in HUES else 'other'}-{tone}"


def _oklch(lightness: float, chroma: float, hue: float) -> str:
    """Convert an OKLCH colour to sRGB hex, with chroma reduced until it is in gamut."""
    while True:
        a, b = (chroma * part(math.radians(hue)) for part in (math.cos, math.sin))
        long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
        medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
        short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
        linear = (
            4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
        )
        if all(-1e-4 <= value <= 1.0001 for value in linear):
            return "#" + "".join(f"{round(255 * _gamma(value)):02x}" for value in linear)
        chroma -= 0.005


def _gamma(value: float) -> float:
    value = min(max(value, 0.0), 1.0)
    return 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055


def _ranges(levels: tuple[float, float]) -> dict[str, str]:
    """Return role -> colour; neighbours in a range also differ in lightness."""
    colours = {}
    for name, (first, last, chroma) in {**HUES, "other": OTHER}.items():
        for tone in range(TONES):
            hue = first + (last - first) * tone / (TONES - 1)
            step = tone / (TONES - 1) if first == last else tone % 2
            colours[f"{name}-{tone}"] = _oklch(levels[0] + (levels[1] - levels[0]) * step, chroma, hue)
    return colours


# Plots use the light colours; SVG output turns them into CSS variables with these fallbacks. c1 to c8 are for
# everything but kernels: Okabe and Ito's palette (Color Universal Design, 2008), adjusted to a contrast of 3:1 on
# light and dark pages.
LIGHT = {
    "ink": "#1c2126",
    "soft": "#5a646f",
    "line": "#d5dae0",
    "c1": "#0072b2",
    "c2": "#d05a00",
    "c3": "#00805d",
    "c4": "#b14a86",
    "c5": "#8f6a00",
    "c6": "#5b6471",
    "c7": "#3b8ec3",
    "c8": "#7a1f20",
    **_ranges((0.46, 0.58)),
}
DARK = {
    "ink": "#e7eaee",
    "soft": "#a3adb8",
    "line": "#39414b",
    "c1": "#5db8ee",
    "c2": "#ff9248",
    "c3": "#35c99c",
    "c4": "#e79cc7",
    "c5": "#e2b53a",
    "c6": "#a9b4c1",
    "c7": "#97d3ff",
    "c8": "#ff9f9c",
    **_ranges((0.84, 0.72)),
}
