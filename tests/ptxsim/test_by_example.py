"""Run the examples of docs/ptxsim/ and compare their output with the pages."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs/ptxsim"
PAGE = DOCS / "by_example.md"
_BLOCK = re.compile(r"(?:<!-- (?P<note>[^>]*) -->\n)?```(?P<kind>\w+)\n(?P<text>.*?)```", re.S)


@pytest.mark.slow
def test_the_page_does_what_it_says(tmp_path) -> None:
    pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
    if not PAGE.exists():
        pytest.skip("the page is part of the repository, not of the package")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name, words in (("python", ""), ("ptxsim", " -m ptxsim")):
        (commands / name).write_text(f'#!/bin/sh\nexec {sys.executable}{words} "$@"\n')
        (commands / name).chmod(0o755 | stat.S_IXUSR)
    env = os.environ | {"PATH": f"{commands}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    folder, shown, statuses, first_finding = tmp_path / "first", "", [], ""
    folder.mkdir()
    for block in _BLOCK.finditer(PAGE.read_text()):
        note, kind, text = block["note"] or "", block["kind"], block["text"]
        if note.startswith("file: "):
            (folder / note.removeprefix("file: ")).write_text(text)
        elif kind == "sh" and not note:
            done = subprocess.run(["sh", "-c", text], cwd=folder, env=env, capture_output=True, text=True, timeout=120)
            shown, _ = done.stdout + done.stderr, statuses.append(done.returncode)
            first_finding = first_finding or (shown if "finding" in shown else "")
        elif kind == "text":
            lines = {line: ".*".join(map(re.escape, line.split("…"))) for line in text.splitlines()}
            missing = [line for line, pattern in lines.items() if not re.search(pattern, shown)]
            assert not missing, f"{missing} is not in:\n{shown}"
    assert statuses == [0, 1, 1, 1, 0]
    assert json.loads((folder / "run.json").read_text())["status"] == 0
    np.testing.assert_array_equal(np.load(folder / "y.npy"), np.load(folder / "want.npy"))
    transcript = _BLOCK.search((DOCS / "index.md").read_text())["text"]
    lines = [line for line in transcript.splitlines()[1:-2] if not line.startswith("schedule")]  # a time in seconds
    assert len(lines) > 5 and not [line for line in lines if line not in first_finding]
    examples = [block["text"] for block in _BLOCK.finditer((DOCS / "api.md").read_text()) if block["kind"] == "python"]
    assert len(examples) == 2
    for example in examples:
        subprocess.run([sys.executable, "-c", example], cwd=folder, env=env, check=True, timeout=120)
