"""Colours of the pictures and the page, by role."""

# Each role is drawn in its light colour and leaves as a CSS variable with that colour as the fallback. The series are
# Okabe and Ito's palette (Color Universal Design, 2008), darkened for white and lightened for dark paper until each
# has a contrast of 3:1; no picture tells series apart by colour alone.
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
}
