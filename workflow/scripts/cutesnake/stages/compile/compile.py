"""Compile stage: one build per kernel, target and variant, ahead of time without GPU.

The kernel's `compile` runs in a process of its own (`limited_process.py`). Faults of the kernel become a `failed`
record in the compiler's own words; faults of the machine (a compiler that is not installed, a full disk, a missing
upstream file) are raised, because recording them would make a passing trouble look like a property of the kernel.
"""

import contextlib
import errno
import filecmp
import functools
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from cutesnake.model import own_builds, provenance, record
from cutesnake.model.catalog import label, load_kernel
from cutesnake.model.contract import Kernel, Variant
from cutesnake.model.dsls import DSLS, Dsl
from cutesnake.model.explain import problem
from cutesnake.model.records import common
from cutesnake.model.records.compile import Compile, LaunchShape
from cutesnake.runtime.machine_faults import full_disk
from cutesnake.runtime.shareable import neutral
from cutesnake.stages.compile.limited_process import CompileError, Outcome, compile_apart
from cutesnake.stages.compile.sources import keep_sources
from cutesnake.stages.compile.store import VARIABLE, reuse

RECORD = "build.json"
LOG_LINES = 40
REASON_LENGTH = 4000  # characters; the log holds the rest
DISASSEMBLY = ("--print-code", "--print-line-info")  # the code, and before each part of it the source line it is from
FULL = (errno.ENOSPC, errno.EDQUOT)
PARTIAL = ".partial-"  # folders of builds under way; one that is found at the start is left from a killed job
SCRATCH = "cutesnake-build-"  # the same on a disk of the node's own, which the node clears after killed jobs
RUNTIME = "runtime"  # results/compile/runtime/
STORE = "store"  # results/compile/store/
LIMIT_SECONDS = 1800.0  # unless the configuration says otherwise


def compile_build(
    operator: str,
    kernel: str,
    target: str,
    variant: Variant,
    folder: Path | str,
    log: Path | str | None = None,
    limit_s: float = LIMIT_SECONDS,
    scratch: Path | str | None = None,
) -> None:
    """Build `kernel` of `operator` for `target` into `folder` and describe it in `folder/build.json`.

    `variant` carries the id and the compile-time values. The artifacts are made in a folder next to
    their final place, or in one below `scratch`, such as a disk of the node's own where `folder` is on a network file
    system. They are renamed file by file; build.json comes last, so that it always describes files that are there. The
    compiler's output goes to `log`, if given, and so does the reason of a build that failed.

    `limit_s` is the time that the kernel's `compile` is given. Raises CompileError for faults of the machine; a kernel
    that does not compile gives a record with status `failed`.
    """
    module = load_kernel(operator, kernel)
    folder = Path(os.path.abspath(folder))  # as it is named: results/ may be a link to another disk
    folder.mkdir(parents=True, exist_ok=True)
    for leftover in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    os.environ[VARIABLE] = str(folder.parents[3] / STORE)  # for this process and the compiler's
    with _place_to_build(folder, scratch) as name, _full_disk_named(folder, Path(name).resolve().parent):
        partial = Path(name).resolve()
        build = partial / "build"
        build.mkdir()
        started = time.monotonic()
        outcome = compile_apart(operator, kernel, target, variant, partial, limit_s)
        if log is not None:
            record.write_text(log, outcome.output)
        returned, error = _returned(outcome, module, build)
        if error is None:
            error = _disassemble(build, returned.compilers)
            keep_sources(build)
        if error and log is not None and error.strip() not in outcome.output:
            record.write_text(log, f"{outcome.output.rstrip()}\n{error.strip()}\n".lstrip())
        seconds = time.monotonic() - started if outcome.seconds is None else outcome.seconds
        if error and full_disk(folder, partial):
            raise CompileError(f"{operator}/{kernel} for {target}: it was not built")
        _install_runtime(returned.runtime, folder)
        files = _install(build, folder)
        own_builds.note(files[name] for name in own_builds.NATIVE if name in files)
    relative = functools.partial(_relative, partial=partial, folder=folder)
    _note_opened(operator, kernel, outcome)
    entry = Compile(
        status="failed" if error else "ok",
        reason=relative(error).strip()[:REASON_LENGTH] if error else None,
        provenance=common.Built(**provenance.built()),
        operator=operator,
        kernel=kernel,
        dsl=module.DSL,  # type: ignore[arg-type]  # checked when it is written
        source=module.SOURCE,
        target=target,
        variant=common.Variant(variant.id, dict(variant.params)),
        symbols=returned.symbols,
        function=returned.function,
        launch=returned.launch,
        compilers=returned.compilers,
        options=returned.options,
        notes=returned.notes,
        files=files,
        seconds=round(seconds, 3),
        log_tail=relative("\n".join(outcome.output.splitlines()[-LOG_LINES:])),
        limit_s=outcome.limit_s,
    )
    record.write("compile", folder / RECORD, entry)


def _note_opened(operator: str, kernel: str, outcome: Outcome) -> None:
    """Note opened files in the record, without modules that count anyway or serve other functions."""
    from cutesnake.planning.outputs import content_of
    from cutesnake.planning.staleness import closure

    name, loaded = f"kernels.{operator}.{kernel}", {label(Path(file)) for file in outcome.loaded}
    known = {label(path) for path in closure(name, for_builds=True)}
    known |= {label(path) for path in closure(name)} & loaded
    more = (file for file in outcome.opened if label(Path(file)) not in known)
    provenance.note_opened({provenance.name_of(file): content_of(file) for file in more})


def _place_to_build(folder: Path, scratch: Path | str | None) -> tempfile.TemporaryDirectory[str]:
    if scratch is None:
        return tempfile.TemporaryDirectory(prefix=PARTIAL, dir=folder)
    try:
        return tempfile.TemporaryDirectory(prefix=SCRATCH, dir=scratch)
    except OSError as error:
        raise CompileError(f"{scratch}: builds cannot be made there ({error.strerror}); name another TMPDIR") from None


@contextlib.contextmanager
def _full_disk_named(*places: Path) -> Iterator[None]:
    """Name the folder of a full disk, which the system's error omits."""
    try:
        yield
    except CompileError as error:
        if full := full_disk(*places):
            raise CompileError(f"{error}; no space left on the disk of {full}") from None
        raise
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(full_disk(*places) or places[0])
        raise


class Returned(common.Part):
    """What a kernel's `compile` may return."""

    symbols: list[str] = msgspec.field(default_factory=list)
    function: str | None = None
    launch: dict[str, LaunchShape] = msgspec.field(default_factory=dict)
    compilers: dict[str, str] = msgspec.field(default_factory=dict)
    options: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)
    runtime: list[str] = msgspec.field(default_factory=list)  # libraries that loading needs


def _returned(outcome: Outcome, module: Kernel, folder: Path) -> tuple[Returned, str | None]:
    """Return what `compile` returned and its fault, None if it is usable."""
    if outcome.error is not None:
        return Returned(), outcome.error
    try:
        returned = msgspec.convert(outcome.build, Returned)
        fault = _lacking(returned, DSLS[module.DSL], folder)
    except msgspec.ValidationError as error:
        fault = f"compile() returned no valid record: {problem(error, outcome.build, Returned)}"
    return (Returned(), f"{label(Path(str(module.__file__)))}: {fault}") if fault else (returned, None)


def _lacking(returned: Returned, dsl: Dsl, folder: Path) -> str | None:
    if dsl.build_packages and not any(folder.glob("*.cubin")):
        return f"compile() left no .cubin in the folder that it was given, which a {dsl.label} build must have"
    if dsl.build_packages and not returned.symbols:
        return f"compile() returned no `symbols`: the entry points of a {dsl.label} build, the main one first"
    return None


def _disassemble(folder: Path, compilers: dict[str, str]) -> str | None:
    """Write `<name>.sass` next to every `<name>.cubin`; return nvdisasm's complaint or None."""
    cubins = sorted(folder.glob("*.cubin"))
    if not cubins:  # kernels of installed packages: a GPU machine describes them without a compiler
        return None
    from cuda.pathfinder import find_nvidia_binary_utility

    nvdisasm = find_nvidia_binary_utility("nvdisasm")
    if nvdisasm is None:
        raise CompileError("nvdisasm is not installed; install it with: pip install -r envs/requirements.txt")
    compilers["nvidia-cuda-nvdisasm"] = importlib.metadata.version("nvidia-cuda-nvdisasm")
    for cubin in cubins:
        command = [nvdisasm, *DISASSEMBLY, str(cubin)]
        sass = cubin.with_suffix(".sass")

        def disassemble(command: list[str] = command, sass: Path = sass) -> None:
            sass.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        try:
            reuse(sass, [cubin.read_bytes(), *DISASSEMBLY, compilers["nvidia-cuda-nvdisasm"]], disassemble)
        except subprocess.CalledProcessError as error:
            return f"nvdisasm could not read {cubin.name}: {error.stderr.strip()}"
    return None


def _install(build: Path, folder: Path) -> dict[str, str]:
    """Move a build to its place, replacing an earlier one; return {name: sha256}."""
    (folder / RECORD).unlink(missing_ok=True)
    made = {path.name: path for path in sorted(build.iterdir()) if path.is_file()}
    for path in folder.iterdir():
        if path.is_file() and path.name not in made and not path.name.startswith("."):
            path.unlink()
    digests = {}
    for name, path in made.items():
        digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        _move(path, folder / name)
    return digests


def _move(path: Path, to: Path) -> None:
    """Rename, or copy across file systems so that readers never see half a file."""
    try:
        path.replace(to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(path, to)


def _copy(path: Path, to: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=PARTIAL, dir=to.parent) as name:
        copy = Path(name) / to.name
        shutil.copy2(path, copy)
        copy.replace(to)


def _install_runtime(libraries: list[str], folder: Path) -> None:
    """Copy libraries that loading needs, and that all builds share, once to results/compile/runtime/.

    A copy has its library's date, which is compared: reading both, 43 MB, takes 40 ms of every build.
    """
    for library in map(Path, libraries):
        copy = folder.parents[3] / RUNTIME / library.name
        if copy.exists() and filecmp.cmp(library, copy):  # of another date: by content
            continue
        copy.parent.mkdir(exist_ok=True)
        _copy(library, copy)
        own_builds.note([hashlib.sha256(copy.read_bytes()).hexdigest()])


def _relative(text: str, partial: Path, folder: Path) -> str:
    """Return `text` without colours and this machine's absolute paths."""
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    places = (partial / "build", partial, folder, folder.resolve())
    return neutral(text, {str(place): "." for place in places})
