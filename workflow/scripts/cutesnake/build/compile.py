"""Compile stage: one build per kernel, target and variant, ahead of time and with no GPU.

The kernel's `compile` runs in a process of its own: a DSL fixes its target when it initialises, and a
compiler that crashes must not take the stage with it. Faults of the kernel become a `failed` record in the
compiler's own words; faults of the machine (a package that is not installed, a full disk, a missing upstream
file) are raised, because recording them would make a passing trouble look like a property of the kernel.
"""

from __future__ import annotations

import ctypes
import filecmp
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cutesnake import record
from cutesnake.build.store import VARIABLE, reuse
from cutesnake.catalog import load_kernel
from cutesnake.contract import Variant
from cutesnake.places import ROOT, SCRIPTS

RECORD = "build.json"
LOG_LINES = 40
REASON_LENGTH = 4000  # characters; the log holds the rest
SPARE_BYTES = 1 << 20  # with less free than this, a failure is put down to the disk
PARTIAL = ".partial-"  # folders of builds under way; one that is found at the start is left from a killed job
RUNTIME = "runtime"  # results/compile/runtime/
STORE = "store"  # results/compile/store/
UNKNOWN: dict[str, Any] = {"symbols": [], "function": None, "launch": {}, "compilers": {}, "options": None, "notes": []}
PR_SET_PDEATHSIG = 1  # of prctl(2)
_REPLY = "reply.json"


class CompileError(OSError):
    """The machine, not the kernel, kept a build from being made. One line, with what would help."""


def compile_build(
    operator: str,
    kernel: str,
    target: str,
    variant: Variant,
    folder: Path | str,
    log: Path | str | None = None,
) -> None:
    """Build `kernel` of `operator` for `target` into `folder` and describe it in `folder/build.json`.

    `variant` carries the id and the values baked into the build. The artifacts are made in a folder beside
    their final place and renamed file by file; build.json comes last, so that it always describes files that
    are there. The compiler's output goes to `log`, if given.

    Raises CompileError for faults of the machine; a kernel that does not compile gives a record with status
    `failed`.
    """
    module = load_kernel(operator, kernel)
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    os.environ[VARIABLE] = str(folder.parents[3] / STORE)  # for this process and the compiler's
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder) as name:
        partial = Path(name)
        (partial / "build").mkdir()
        started = time.monotonic()
        reply, output = _compile_apart(operator, kernel, target, variant, partial)
        if log is not None:
            record.write_text(log, output)
        if reply["error"] is None:
            reply["error"] = _disassemble(partial / "build", reply["build"].setdefault("compilers", {}))
        seconds = time.monotonic() - started
        if reply["error"] and shutil.disk_usage(folder).free < SPARE_BYTES:
            raise CompileError(f"{operator}/{kernel} for {target}: no space left on the disk of {folder}")
        _install_runtime(reply["build"].pop("runtime", []), folder)
        files = _install(partial / "build", folder)
    relative = functools.partial(_relative, partial=partial)
    entry = {
        "stage": "compile",
        "status": "failed" if reply["error"] else "ok",
        "reason": relative(reply["error"]).strip()[:REASON_LENGTH] if reply["error"] else None,
        "provenance": _provenance(),
        "operator": operator,
        "kernel": kernel,
        "dsl": module.DSL,
        "source": module.SOURCE,
        "target": target,
        "variant": {"id": variant.id, "params": dict(variant.params)},
        **UNKNOWN,
        **reply["build"],
        "files": files,
        "seconds": round(seconds, 3),
        "log_tail": relative("\n".join(output.splitlines()[-LOG_LINES:])),
    }
    record.write("compile", folder / RECORD, entry)


def _provenance() -> dict[str, str]:
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _compile_apart(
    operator: str, kernel: str, target: str, variant: Variant, partial: Path
) -> tuple[dict[str, Any], str]:
    """Run `_worker` in a process of its own; returns {"error": …, "build": {…}} and its output."""
    request: dict[str, Any] = {"operator": operator, "kernel": kernel, "target": target, "folder": str(partial)}
    request["variant"] = {"id": variant.id, "params": dict(variant.params)}
    paths = [str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "cutesnake.build.compile"],
        input=json.dumps(request),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    reply = partial / _REPLY
    if done.returncode == 0:
        answer = json.loads(reply.read_text())
        if answer["machine"]:
            raise CompileError(f"{operator}/{kernel} for {target}: {answer['machine']}")
        return answer, done.stdout
    if done.returncode in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT):
        raise CompileError(f"{operator}/{kernel} for {target}: the compiler was killed (out of memory?)")
    how = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit code {done.returncode}"
    last = "\n".join(done.stdout.splitlines()[-5:])
    return {"error": f"the compiler ended with {how}: {last}", "build": {}}, done.stdout


def _worker(request: dict[str, Any]) -> dict[str, Any]:
    """Compile in this process. `machine` is set where the fault is not the kernel's."""
    variant = Variant(**request["variant"])
    answer: dict[str, Any] = {"error": None, "machine": None, "build": {}}
    try:
        module = load_kernel(request["operator"], request["kernel"])
        answer["build"] = module.compile(variant, request["target"], Path(request["folder"]) / "build")
    except ModuleNotFoundError as error:
        answer["machine"] = f"{error}; install it with: pip install -r envs/requirements.txt"
    except OSError as error:
        answer["machine"] = f"{type(error).__name__}: {error}"
    except Exception as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    return answer


def _disassemble(folder: Path, compilers: dict[str, str]) -> str | None:
    """Write `<name>.sass` beside every `<name>.cubin`; None, or nvdisasm's complaint about one."""
    cubins = sorted(folder.glob("*.cubin"))
    if not cubins:  # kernels of installed packages: a GPU machine describes them without a compiler
        return None
    from cuda.pathfinder import find_nvidia_binary_utility

    nvdisasm = find_nvidia_binary_utility("nvdisasm")
    if nvdisasm is None:
        raise CompileError("nvdisasm is not installed; install it with: pip install -r envs/requirements.txt")
    compilers["nvidia-cuda-nvdisasm"] = importlib.metadata.version("nvidia-cuda-nvdisasm")
    for cubin in cubins:
        command = [nvdisasm, "--print-code", str(cubin)]
        sass = cubin.with_suffix(".sass")

        def disassemble(command: list[str] = command, sass: Path = sass) -> None:
            sass.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        try:
            reuse(sass, [cubin.read_bytes(), "--print-code", compilers["nvidia-cuda-nvdisasm"]], disassemble)
        except subprocess.CalledProcessError as error:
            return f"nvdisasm could not read {cubin.name}: {error.stderr.strip()}"
    return None


def _install(build: Path, folder: Path) -> dict[str, str]:
    """Move a finished build to its place and drop what an earlier one left there; returns {name: sha256}."""
    (folder / RECORD).unlink(missing_ok=True)
    made = {path.name: path for path in sorted(build.iterdir()) if path.is_file()}
    for path in folder.iterdir():
        if path.is_file() and path.name not in made and not path.name.startswith("."):
            path.unlink()
    digests = {}
    for name, path in made.items():
        digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        path.replace(folder / name)
    return digests


def _install_runtime(libraries: list[str], folder: Path) -> None:
    """Copy libraries that loading needs, and that all builds share, once to results/compile/runtime/."""
    for library in map(Path, libraries):
        copy = folder.parents[3] / RUNTIME / library.name
        if copy.exists() and filecmp.cmp(library, copy, shallow=False):
            continue
        copy.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=copy.parent) as name:
            shutil.copyfile(library, Path(name) / library.name).replace(copy)


def _relative(text: str, partial: Path) -> str:
    """`text` without colours and the absolute paths of this machine, so that records can be compared and shared."""
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    places = {
        str(partial / "build"): ".",
        str(partial): ".",
        str(partial.parent): ".",
        str(Path.cwd()): ".",
        str(ROOT): ".",
        sys.prefix: "<python>",
        sys.base_prefix: "<python>",
    }
    places |= {str(Path(tempfile.gettempdir()).resolve()): "<tmp>", str(Path.home()): "~"}
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, places[place])
    return text


if __name__ == "__main__":
    # Where the stage is killed, its compiler must not go on alone: Linux sends this signal when the parent dies.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _request = json.load(sys.stdin)
    _answer = _worker(_request)
    (Path(_request["folder"]) / _REPLY).write_text(json.dumps(_answer))
