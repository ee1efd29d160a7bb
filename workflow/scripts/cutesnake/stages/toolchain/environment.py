"""Install a toolchain: its pins in a virtual environment over the main one."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from pathlib import Path

from cutesnake.model import provenance, record
from cutesnake.planning.toolchains import DISASSEMBLER, ToolchainError, read

FOLDER = "env"  # in the folder of the record
REST = "zz_main_environment.pth"  # read after the .pth files of the DSLs, so that their packages come first
PROBE = """
import importlib.metadata, json, sys
import cuda.pathfinder
versions = {name: importlib.metadata.version(name) for name in json.loads(sys.argv[1])}
print(json.dumps([versions, cuda.pathfinder.find_nvidia_binary_utility("nvdisasm")]))
"""


def python_of(output: Path | str) -> Path:
    """Return the interpreter of the environment with the record `output`."""
    return Path(output).parent / FOLDER / "bin/python"


def install(entry: str, output: str) -> None:
    """Make the environment of a toolchain, then its record `output`.

    A killed job leaves the earlier environment. Raises ToolchainError where pip fails, or where what was pinned is not
    what was installed.
    """
    (toolchain,) = read([entry])
    began, final = time.monotonic(), Path(output).parent / FOLDER
    final.parent.mkdir(parents=True, exist_ok=True)
    for leftover in final.parent.glob(".partial-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=final.parent) as name:
        new = Path(name) / FOLDER
        venv.create(new, symlinks=True)
        # --no-deps: torch, numpy and all else come from the main environment
        options = ["--no-deps", "--quiet", "--disable-pip-version-check", "--retries", "2"]
        options += ["--require-hashes"] if toolchain.hashed else []
        command = [sys.executable, "-m", "pip", "--python", str(new / "bin/python"), "install", *options]
        done = subprocess.run([*command, "-r", toolchain.file], capture_output=True, text=True)
        if done.returncode:
            last = next((line for line in done.stderr.splitlines() if line.startswith("ERROR")), done.stderr[-200:])
            raise ToolchainError(f"{entry}: pip could not install it ({last.strip()}); it needs a package index")
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(new), "platbase": str(new)}))
        places = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
        lines = [f"import site; site.addsitedir({place!r})\n" for place in places]
        (packages / REST).write_text("".join(lines), encoding="utf-8")
        _check(new / "bin/python", dict(toolchain.pins), entry)
        if final.exists():
            final.rename(Path(name) / "earlier")
        new.rename(final)
    size = sum(path.lstat().st_size for path in final.rglob("*") if path.is_file() and not path.is_symlink())
    entry_ = {
        "stage": "environment",
        "status": "ok",
        "reason": None,
        "provenance": {"created": provenance.now()},
        "toolchain": toolchain.name,
        "pins": dict(toolchain.pins),
        "megabytes": round(size / 1e6, 1),
        "seconds": round(time.monotonic() - began, 1),
    }
    record.write("environment", output, entry_)


def _check(python: Path, pins: dict[str, str], entry: str) -> None:
    command = [str(python), "-P", "-c", PROBE, json.dumps(list(pins))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise ToolchainError(f"{entry}: its environment does not work: {last}")
    versions, disassembler = json.loads(done.stdout)
    if wrong := [f"{name} {versions[name]}" for name in pins if versions[name] != pins[name]]:
        raise ToolchainError(f"{entry}: installed {', '.join(wrong)}, which is not what it pins")
    if disassembler is None:
        raise ToolchainError(f"{entry}: it needs {DISASSEMBLER} as well; pin the main environment's version")
