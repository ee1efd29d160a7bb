"""Headless Chromium, which the tests look at pages with."""

import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Headless Chromium makes no window narrower than 500 pixels, so the page is put into a frame of the wanted width.
FRAME = """<!doctype html><meta name="color-scheme" content="light dark"><body style="margin:0">
<script>window.onmessage = function (m) { document.title = "DONE" + m.data; };</script>
<iframe src="page.html" style="border:0;width:%dpx;height:900px"></iframe>"""
STARTS, SECONDS = 3, 60  # it takes two; now and then, on a busy machine, it hangs before it has opened the page


def chromium(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with a profile of its own in `folder`."""
    quiet = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")
    quiet += ("--disable-component-update", "--disable-sync")
    for start in range(STARTS):
        profile = f"--user-data-dir={folder / f'profile{start}'}"
        command = [str(CHROMIUM), "--headless", "--no-sandbox", *quiet, profile, "--virtual-time-budget=20000"]
        try:
            return subprocess.run([*command, *options], capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            continue
    pytest.fail(f"Chromium hung {STARTS} times")
