"""Compile stage: what a build leaves behind, whatever happens to it."""

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from builds import served
from cutesnake.model import catalog, own_builds, record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.contract import Variant
from cutesnake.model.paths import ROOT
from cutesnake.model.records.compile import LaunchShape
from cutesnake.runtime import pool
from cutesnake.runtime.errors import describe
from cutesnake.runtime.machine_faults import machine_fault
from cutesnake.stages.compile import cute as cute_build
from cutesnake.stages.compile.compile import RUNTIME, CompileError, _install_runtime, compile_build
from cutesnake.stages.load import cute as cute_load
from cutesnake.stages.load.build import LoadedBuild

SCRIPTS = ROOT / "workflow" / "scripts"
TOY = """
import os, signal, subprocess, sys, threading, time
DSL = "cuda"
SOURCE = "ours"
TARGETS = {"sm_90a": ()}

def supports(workload): ...
def variants(workload, target): ...
def bind(build, workload, inputs, outputs): ...

def compile(variant, target, folder):
    print("compiling into", folder)
    how = variant.params["how"]
    (folder / "kernel.ptx").write_text(how)
    if how == "refuses":
        raise ValueError(f"\\x1b[91m{folder}/kernel.py:3: error:\\x1b[0m no such operand")
    if how == "crashes":
        os.abort()
    if how == "lacks a package":
        import no_such_dsl
    if how == "fills the disk":
        raise OSError(28, "No space left on device", str(folder))
    if how == "damages its cubin":
        (folder / "kernel.cubin").write_bytes(b"not an ELF file")
    if how == "is killed":
        os.kill(os.getppid(), signal.SIGKILL)
    if how == "is short of memory":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "has its compiler killed":
        raise RuntimeError("collect2: fatal error: ld terminated with signal 9 [Killed]")
    if how == "lacks a file":
        open("no_such_file")
    if how == "leaves":
        os._exit(0)
    if how == "ends":
        sys.exit("enough")
    if how == "asserts":
        assert variant.params == {}
    if how == "misses a key":
        {}["tile"]
    if how == "hangs":
        (folder.parents[2] / "process").write_text(str(subprocess.Popen(["sleep", "600"]).pid))
        print("starting", flush=True)
        time.sleep(600)
    if how == "waits":
        time.sleep(0.5)
    if how == "computes":
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
    if how == "leaves a process behind":
        subprocess.Popen(["sleep", "600"])
    if how == "leaves a thread behind":
        threading.Thread(target=time.sleep, args=(600,)).start()
    if how == "returns nothing":
        return None
    if how == "returns a set":
        return {"symbols": {"toy"}}
    if how == "returns a wrong key":
        return {"symbols": ["toy"], "status": "ok"}
    if how == "returns a wrong extent":
        return {"launch": {"toy": {"block": 128}}}
    return {"symbols": ["toy"], "compilers": {"toy": "1.0"}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """What the environment of processes says that are served."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(pool.VARIABLE, "")
        process = pool.start(["host"])
        name = os.environ[pool.VARIABLE]
    yield name
    process.kill()
    process.wait()


@pytest.fixture(params=["started", "forked"])
def toy(
    request: pytest.FixtureRequest, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], dict[str, Any]]:
    """`toy(how)` builds a kernel that behaves as `how` says, into one and the same folder.

    Returns its build.json.

    Its process is started for it, or forked from a server.
    """
    monkeypatch.setenv(pool.VARIABLE, server if request.param == "forked" else "")
    package = tmp_path / "extra"
    (package / "toy").mkdir(parents=True)
    (package / "toy" / "kernel.py").write_text(TOY)
    monkeypatch.setenv(catalog.PATHS, str(package))

    def build(how: str, **options: float) -> dict[str, Any]:
        folder = tmp_path / "compile" / "toy" / "kernel" / "sm_90a" / "a"
        compile_build("toy", "kernel", "sm_90a", Variant("a", {"how": how}), folder, log=tmp_path / "log", **options)
        return record.read("compile", folder / "build.json")

    build.folder = tmp_path / "compile" / "toy" / "kernel" / "sm_90a" / "a"
    build.log = tmp_path / "log"
    yield build
    for name in [name for name in sys.modules if name.startswith("kernels.toy")]:
        del sys.modules[name]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_record_and_files(toy) -> None:
    entry = toy("works")
    assert (entry.status, entry.reason, entry.symbols) == ("ok", None, ["toy"])
    assert entry.files == {"kernel.ptx": hashlib.sha256(b"works").hexdigest()}
    assert (entry.variant.id, entry.variant.params) == ("a", {"how": "works"})
    assert set(entry.compilers) == {"toy"}
    assert names(toy.folder) == ["build.json", "kernel.ptx"]


def test_failure_is_recorded_in_the_compilers_words(toy) -> None:
    entry = toy("refuses")
    assert entry.status == "failed"
    assert entry.reason == "kernels/toy/kernel.py:16: ValueError: ./kernel.py:3: error: no such operand"
    assert entry.log_tail == "compiling into ."
    assert "compiling into /" in toy.log.read_text()


@pytest.mark.fault("Kernels", "the compiler crashes", "failed build that says where")
def test_crash_of_the_compiler_is_recorded(toy) -> None:
    assert "SIGABRT" in toy("crashes").reason


def test_damaged_cubin_is_recorded(toy) -> None:
    entry = toy("damages its cubin")
    assert entry.status == "failed"
    assert entry.reason.startswith("nvdisasm could not read kernel.cubin: ")


@pytest.mark.fault("Kernels", "`compile` raises, ends the process, or returns nothing", "failed build that says where")
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("lacks a package", "kernels/toy/kernel.py:20: ModuleNotFoundError: No module named 'no_such_dsl'"),
        ("lacks a file", "FileNotFoundError: [Errno 2] No such file or directory: 'no_such_file'"),
        ("leaves", "kernels/toy/kernel.py: compile() ended with exit code 0 and no result: compiling into ."),
        ("ends", "SystemExit: enough"),
        ("asserts", ": AssertionError: assert variant.params == {}"),
        ("misses a key", ": KeyError: 'tile'"),
        ("returns nothing", "compile() returned no valid record: the record itself: it is empty; it must be a mapping"),
        ("returns a set", "TypeError: Object of type set is not JSON serializable"),
        (
            "returns a wrong key",
            "compile() returned no valid record: the record itself: unknown key 'status'; allowed: symbols",
        ),
        ("returns a wrong extent", "toy/kernel.py: compile() returned no valid record: launch/toy/block: "),
    ],
)
def test_whatever_a_kernel_does_is_a_record(toy, how: str, message: str) -> None:
    entry = toy(how)
    assert entry.status == "failed" and message in entry.reason, entry.reason


def test_a_build_without_artifacts_is_a_failed_one(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = toy.log.parent / "extra" / "toy" / "kernel.py"
    kernel.write_text(kernel.read_text().replace('DSL = "cuda"', 'DSL = "cute"'))
    entry = toy("works")
    assert entry.status == "failed" and "left no .cubin in the folder" in entry.reason


@pytest.mark.fault("Kernels", "`compile` hangs", "ended after `compile.max_seconds`, with its process group")
def test_a_build_that_hangs_is_ended_with_what_it_started(toy) -> None:
    entry = toy("hangs", limit_s=2.0)
    assert entry.status == "failed" and "ended by the time limit of 2 s" in entry.reason
    assert entry.log_tail == "compiling into .\nstarting" and entry.limit_s == 2.0
    child = Path(f"/proc/{(toy.folder.parent / 'process').read_text()}/stat")
    until = time.monotonic() + 20.0  # one that is killed runs on until the system has a moment to end it
    while not ended(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert ended(child)


def ended(stat: Path) -> bool:
    try:
        return stat.read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.fault("Kernels", "`compile` leaves processes behind", "its process group is ended")
@pytest.mark.parametrize("how", ["leaves a process behind", "leaves a thread behind"])
def test_what_a_build_leaves_running_is_not_waited_for(toy, how: str) -> None:
    assert toy(how, limit_s=60.0).status == "ok"
    assert toy("works").seconds < 30


def test_the_seconds_of_a_build_are_its_processor_time(toy) -> None:
    """A busy machine, and the start of the process, would make a build look slow."""
    assert toy("waits").seconds < 0.25 < toy("computes").seconds


@pytest.mark.fault(
    "Machine",
    "a compiler is killed, short of memory, or fills the disk",
    "the job fails, nothing is recorded, the next run retries",
)
@pytest.mark.parametrize(
    "how, message",
    [("fills the disk", "No space left"), ("is short of memory", "killed"), ("has its compiler killed", "9")],
)
def test_fault_of_the_machine_is_raised_not_recorded(toy, how: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        toy(how)
    assert names(toy.folder) == []


def test_failure_on_a_full_disk_is_not_the_kernels(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers do not always notice that what they wrote was lost."""
    full = shutil.disk_usage(toy.log.parent)._replace(free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(CompileError, match=r"it was not built; no space left on the disk of .*/compile/"):
        toy("refuses")
    assert names(toy.folder) == []


def test_fault_of_the_machine_leaves_the_earlier_build(toy) -> None:
    toy("works")
    with pytest.raises(CompileError):
        toy("fills the disk")
    assert (toy.folder / "kernel.ptx").read_text() == "works"
    record.read("compile", toy.folder / "build.json")


def test_rebuild_drops_files_of_the_earlier_build(toy) -> None:
    toy("works")
    (toy.folder / "kernel.cubin").write_bytes(b"of an earlier build")
    assert list(toy("works again").files) == ["kernel.ptx"]
    assert names(toy.folder) == ["build.json", "kernel.ptx"]


def test_killed_build_leaves_nothing_half_written(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pool.VARIABLE)  # or the kernel would kill the server of the tests that follow
    script = f"""
from cutesnake.stages.compile.compile import compile_build
from cutesnake.model.contract import Variant
compile_build("toy", "kernel", "sm_90a", Variant("a", {{"how": "is killed"}}), {str(toy.folder)!r})
"""
    assert subprocess.run([sys.executable, "-P", "-c", script]).returncode == -9
    assert [name for name in names(toy.folder) if not name.startswith(".partial-")] == []
    toy("works")
    assert names(toy.folder) == ["build.json", "kernel.ptx"]


@pytest.mark.parametrize("another_disk", [False, True])
def test_a_build_made_on_scratch_is_as_one_made_beside_its_place(toy, tmp_path, monkeypatch, another_disk) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    rename, refused = Path.replace, []

    def across(path: Path, to: Path) -> Path:
        if path.is_relative_to(scratch) != Path(to).is_relative_to(scratch):
            refused.append(path.name)
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return rename(path, to)

    compared = toy("works")
    if another_disk:
        monkeypatch.setattr(Path, "replace", across)
    entry = toy("works", scratch=scratch)
    assert entry.files == compared.files and (toy.folder / "kernel.ptx").read_text() == "works"
    assert refused == ["kernel.ptx"] * another_disk
    assert names(toy.folder) == ["build.json", "kernel.ptx"] and names(scratch) == []
    assert f"compiling into {scratch}" in toy.log.read_text() and str(scratch) not in entry.log_tail
    entry = toy("refuses", scratch=scratch)
    assert entry.reason == "kernels/toy/kernel.py:16: ValueError: ./kernel.py:3: error: no such operand"
    with pytest.raises(CompileError, match="builds cannot be made there"):
        toy("works", scratch=tmp_path / "missing")


def test_a_full_scratch_is_told_and_the_earlier_build_stays(toy, tmp_path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", scratch], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        toy("works")
        with pytest.raises(OSError, match="No space left"):
            (scratch / "others").write_bytes(bytes(1 << 20))
        with pytest.raises(OSError) as caught:
            toy("works again", scratch=scratch)
        assert describe(caught.value).startswith(f"{scratch}: the disk is full; free some space and run again")
        assert (toy.folder / "kernel.ptx").read_text() == "works"
        assert names(toy.folder) == ["build.json", "kernel.ptx"] and names(scratch) == ["others"]
    finally:
        subprocess.run(["umount", "-l", scratch], check=True)


@pytest.mark.slow
def test_what_is_built_on_scratch_in_a_folder_with_spaces_has_the_same_bytes(add: Path, tmp_path: Path) -> None:
    place = tmp_path / "a folder with spaces"
    place.mkdir()
    elsewhere = build_add(place, scratch=place)
    assert record.read("compile", elsewhere / "build.json").files == record.read("compile", add / "build.json").files


def build_add(place: Path, target: str = "sm_90a", dtype: str = "fp32", scratch: Path | None = None) -> Path:
    """elementwise_add in CuTe, in the folder that the workflow gives it."""
    kernel, operator = load_kernel("elementwise_add", "cute"), load_operator("elementwise_add")
    variant = kernel.variants(operator.Workload(100, 100, dtype), target)[0]
    folder = place / "compile" / "elementwise_add" / "cute" / target / variant.id
    with served():
        compile_build("elementwise_add", "cute", target, variant, folder, scratch=scratch)
    return folder


@pytest.fixture(scope="module")
def add(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_add(tmp_path_factory.mktemp("linked"))


@pytest.fixture(scope="module")
def unlinked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built on a machine without a C linker."""
    empty = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(empty))
        return build_add(tmp_path_factory.mktemp("unlinked"))


def test_cute_build_is_whole(add: Path) -> None:
    entry = record.read("compile", add / "build.json")
    assert entry.status == "ok"
    artifacts = ["cubin", "mlir", "o", "ptx", "sass", "so"]
    assert names(add) == ["build.json", *(f"kernel.{suffix}" for suffix in artifacts), "sources.json"]
    for name, digest in entry.files.items():
        assert hashlib.sha256((add / name).read_bytes()).hexdigest() == digest
    (symbol,) = entry.symbols
    assert entry.launch == {symbol: LaunchShape((256, 1, 1), (1, 1, 1), 0)}
    assert symbol in (add / "kernel.ptx").read_text()
    assert ".target sm_90a" in (add / "kernel.ptx").read_text()
    sass = (add / "kernel.sass").read_text()
    assert "LDG.E.128" in sass and "STG.E.128" in sass  # vectors, not elements
    assert "LDL" not in sass and "STL" not in sass  # no spills


def test_no_path_of_this_machine_in_the_record_or_in_what_was_built(add: Path) -> None:
    for path in add.iterdir():
        content = path.read_bytes()
        for place in (ROOT, sys.prefix, Path.home(), add.parents[4]):
            assert str(place).encode() not in content, (path.name, place)
    assert '"kernels/elementwise_add/cute/kernel.py"' in (add / "kernel.ptx").read_text()


def test_library_names_no_other(add: Path) -> None:
    """So that it loads wherever the results folder is copied to."""
    assert b"libcute_dsl_runtime" not in (add / "kernel.so").read_bytes()


def test_a_runtime_library_that_is_there_is_told_by_its_date_and_replaced_where_it_is_another(tmp_path: Path) -> None:
    """Reading both, 43 MB, would take a part of every build."""
    folder = tmp_path / "compile/add/cute/sm_90a/fp32"
    library, copy = tmp_path / "lib/libruntime.so", tmp_path / "compile" / RUNTIME / "libruntime.so"
    folder.mkdir(parents=True)
    library.parent.mkdir()
    library.write_bytes(b"first")
    _install_runtime([str(library)], folder)
    assert copy.read_bytes() == b"first"
    made = copy.stat().st_ino
    _install_runtime([str(library)], folder)
    assert copy.stat().st_ino == made
    library.write_bytes(b"other")  # as long, and of another date
    os.utime(library, (0, 0))
    _install_runtime([str(library)], folder)
    assert copy.read_bytes() == b"other"


def test_runtime_library_is_shared_by_all_builds(add: Path) -> None:
    assert cute_load.find_runtime(add) == add.parents[3] / "runtime" / cute_load.RUNTIME


def test_loaded_build_validates_its_arguments(add: Path) -> None:
    kernel, operator = load_kernel("elementwise_add", "cute"), load_operator("elementwise_add")
    workload = operator.Workload(100, 100, "fp32")
    inputs, outputs = operator.make_inputs(workload, 0), operator.make_outputs(workload)
    runner = kernel.bind(LoadedBuild(add), workload, inputs, outputs)
    assert [launch.grid for launch in runner.launches] == [(3, 1, 1)]  # 10,000 elements in tiles of 4,096
    with pytest.raises(ValueError, match="expected device_type=cuda"):
        runner(0)


def test_without_a_linker_all_but_the_library_is_built(unlinked: Path) -> None:
    entry = record.read("compile", unlinked / "build.json")
    assert entry.status == "ok"
    assert entry.notes == [cute_build.NO_LINKER]
    artifacts = ["cubin", "mlir", "o", "ptx", "sass"]
    assert names(unlinked) == ["build.json", *(f"kernel.{suffix}" for suffix in artifacts), "sources.json"]


def test_loading_links_what_was_not_linked(unlinked: Path) -> None:
    before = names(unlinked)
    assert callable(cute_load.open_function(unlinked))
    assert names(unlinked) == before


def test_loading_without_a_linker_says_what_is_lacking(unlinked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(cute_load.LoadError, match=r"had no C linker, and this one has none .*apt-get install gcc"):
        cute_load.open_function(unlinked)


@pytest.mark.parametrize("damage", ["cut short", "missing"])
def test_loading_a_damaged_build_says_how_to_mend_it(add: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "build"
    shutil.copytree(add, folder)
    library = folder / "kernel.so"
    if damage == "missing":
        library.unlink()
    else:
        library.write_bytes(library.read_bytes()[:-1000])
    with pytest.raises(cute_load.LoadError, match=r"kernel\.so is missing or damaged: delete .*build\.json"):
        cute_load.open_function(folder)


def opened(folder: Path) -> object:
    """Open a build with a stand-in for the GPU."""
    with cute_load.opened_by(lambda folder, name: name):
        return cute_load.open_function(folder)


@pytest.mark.fault(
    "Users",
    "results from elsewhere, with matching checksums of their own",
    "libraries are not loaded without `CUTESNAKE_TRUST_BUILDS=1`",
)
def test_a_build_that_this_user_did_not_compile_is_not_loaded(add: Path, tmp_path: Path, monkeypatch) -> None:
    """Its record has matching sums, which say nothing of who made it."""
    folder = tmp_path / "copied"
    shutil.copytree(add, folder)
    assert opened(folder) is not None  # a copy of one's own build is one's own
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "nobody's"))
    with pytest.raises(cute_load.ForeignBuildError, match=r"kernel\.o was not compiled by this user") as caught:
        opened(folder)
    assert machine_fault(caught.value)  # nothing is recorded of the kernel
    monkeypatch.setenv(own_builds.TRUST, "1")
    assert opened(folder) is not None


def test_a_foreign_runtime_library_is_not_loaded(add: Path, tmp_path: Path) -> None:
    folder = tmp_path / "compile" / "operator" / "kernel" / "target" / "variant"
    shutil.copytree(add, folder)
    runtime = tmp_path / "compile" / "runtime" / cute_load.RUNTIME
    runtime.parent.mkdir()
    runtime.write_bytes(b"\x7fELF of somebody else")
    with pytest.raises(cute_load.ForeignBuildError, match=re.escape(str(runtime))):
        cute_load.find_runtime(folder)


def test_sums_that_others_can_write_are_not_believed(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for _ in range(2):
        own_builds.note(["a" * 64])
    assert own_builds.notes().read_text().count("\n") == 1
    assert own_builds.is_own("a" * 64) and not own_builds.is_own("b" * 64) and not own_builds.is_own("a")
    own_builds.notes().chmod(0o622)
    assert not own_builds.is_own("a" * 64)


def test_loading_with_a_damaged_runtime_names_it(add: Path, tmp_path: Path, monkeypatch) -> None:
    """As when copying the results folder to the GPU machine broke off."""
    monkeypatch.setenv(own_builds.TRUST, "1")
    folder = tmp_path / "compile" / "operator" / "kernel" / "target" / "variant"
    shutil.copytree(add, folder)
    runtime = tmp_path / "compile" / "runtime" / cute_load.RUNTIME
    runtime.parent.mkdir()
    runtime.write_bytes(b"\x7fELF")
    with pytest.raises(cute_load.LoadError, match=re.escape(str(runtime))):
        cute_load.open_function(folder)


def test_loading_a_failed_build_repeats_its_reason(toy) -> None:
    toy("refuses")
    with pytest.raises(cute_load.LoadError, match="no such operand"):
        cute_load.open_function(toy.folder)


def test_unknown_target_is_recorded(tmp_path: Path) -> None:
    entry = record.read("compile", build_add(tmp_path, target="sm_10x") / "build.json")
    assert entry.status == "failed"
    assert "sm_10x" in entry.reason


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"])
def test_elementwise_add_everywhere(tmp_path: Path, target: str, dtype: str) -> None:
    folder = build_add(tmp_path, target, dtype)
    assert record.read("compile", folder / "build.json").status == "ok"
    assert ".128" in (folder / "kernel.sass").read_text()


def test_a_build_without_machine_code_needs_no_disassembler(toy, monkeypatch) -> None:
    """A GPU machine without a compiler can describe the kernels of an installed package."""
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", None)
    assert toy("works").status == "ok"
