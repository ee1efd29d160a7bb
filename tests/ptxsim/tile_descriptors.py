"""Compare ptxsim's TMA descriptors for cuTile's kernels with a Hopper driver's.

`prepare BUILDS FOLDER` takes cuTile's builds for sm_90a below BUILDS (a folder such as results/compile) whose kernels
take descriptors. Next to each cubin it puts one with other machine code, which stores the parameters, as they lie in
the constant bank, where the first pointer among them points. All else is the cubin's own, with the host code that the
driver calls for the descriptors. `read FOLDER ANSWERS`, on the GPU, launches these in place of the kernels on inputs
of the operators and writes into ANSWERS what they stored. `compare FOLDER ANSWERS`, anywhere, makes the descriptors of
the same visible parameters by ptxsim: they have to have the same bytes.

`run FOLDER`, on the GPU, asks whether they do what they should. It launches the cubin of TileGym's matrix product,
whose descriptors are the driver's, and a cubin that ptxas makes of the kernel's PTX, without any host code, with all
parameters made by ptxsim; the outputs have to have the same bits.

The GPU's machine needs torch, cuda-bindings and the project's own packages, `run` a C compiler as well.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import multiprocessing
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ptxsim
from ptxsim.host.cutile import DESCRIPTOR, parameter_block

TARGET = "sm_90a"
PROCESSORS = 132  # of an H100 SXM and an H200
PER_KERNEL = 2  # builds of a kernel that are looked at: others differ in sizes that are compile-time constants
MATMUL = "gemm/tilegym"
SIZES = ((512, 512, 256), (200, 264, 136), (1024, 640, 2048))
SHARED = re.compile(r"^\.shared (\.align \d+ \.b8 \w+)\[(\d+)\];\n", re.M)
WORKLOADS = 30  # at most, by which the device functions of a build are sought
AT_ONCE, LIMIT_SECONDS = 4, 30
WRITTEN = 64  # bytes of a descriptor that say something
DEVICE = "cuda"


def prepare(builds: Path, folder: Path) -> None:
    for record in sorted(builds.glob(f"*/*/{TARGET}/*/build.json")):
        place = folder / record.parent.relative_to(builds)
        result = [x for x in sorted(record.parent.glob("*.ptx")) if json.loads(record.read_text())["dsl"] == "cutile"]
        result = [x for x in result if any(p.size == DESCRIPTOR for p in kernel_of(x).params)]
        if not result or len(list(place.parent.glob("*"))) >= PER_KERNEL:
            continue
        place.mkdir(parents=True)
        shutil.copy(record, place)
        for ptx in result:
            shutil.copy(ptx, place)
            shutil.copy(ptx.with_suffix(".cubin"), place)
            (place / f"{ptx.stem}.storing").write_bytes(storing(ptx))
        if place.is_relative_to(folder / MATMUL):
            (place / "plain").write_bytes(assembled(without_host_code(record.parent / "kernel.ptx")))


def kernel_of(ptx: Path) -> Any:
    (kernel,) = ptxsim.Module.from_file(ptx).kernels.values()
    return kernel


def assembled(text: str) -> bytes:
    """The cubin that ptxas makes of a PTX text."""
    import nvidia

    ptxas = next(x for root in nvidia.__path__ for x in Path(root).glob("*/bin/ptxas"))
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "x.ptx"), Path(folder, "x.cubin")
        source.write_text(text)
        target = re.findall(r"^\.target (\w+)", text, re.M)[0]
        subprocess.run([ptxas, f"-arch={target}", source, "-o", made], check=True)
        return made.read_bytes()


def without_lines(ptx: Path) -> str:
    """The PTX of a build without what ties it to its source."""
    text = ptx.read_text().split("\n.section")[0]
    return re.sub(r"^\s*\.(loc|file|pragma)\b.*\n", "", text, flags=re.M)


def without_host_code(ptx: Path) -> str:
    """As a kernel of threads, whose launches pass every parameter.

    Its shared memory is dynamic, since it is large.
    """
    text = without_lines(ptx).replace("\n.language 7", "").replace(".hidden\t", "")
    declared = "".join(f".extern .shared {name}[];\n" for name, _ in SHARED.findall(text))
    return SHARED.sub("", text).replace(".visible .entry", f"{declared}.visible .entry")


def storing(ptx: Path) -> bytes:
    """Return the build's cubin with code replaced by stores of the parameters."""
    cubin, kernel = ptx.with_suffix(".cubin"), kernel_of(ptx)
    made = assembled(storing_text(ptx))
    whole, name = bytearray(cubin.read_bytes()), f".text.{kernel.name}"
    (start, size), (first, many) = sections(whole)[name], sections(made)[name]
    if many > size or sections(whole).get(f".rela{name}", (0, 0))[1]:
        raise ValueError(f"{cubin}: its {size} bytes of code cannot be replaced by {many}")
    if sections(whole)[f".nv.constant0.{kernel.name}"][1] != sections(made)[f".nv.constant0.{kernel.name}"][1]:
        raise ValueError(f"{cubin}: its constant bank is of another size than that of the code that stores it")
    whole[start : start + many] = made[first : first + many]
    return bytes(whole)


def storing_text(ptx: Path) -> str:
    """A kernel that is declared as that of a build, and stores its parameters."""
    head = without_lines(ptx)
    return "\n".join([head[: head.index("\n{")], "{", *storing_body(kernel_of(ptx)), "}", ""])


def storing_body(kernel: Any) -> Iterator[str]:
    """Return instructions that store every parameter at its offset from the first pointer."""
    yield from (".reg .pred %p;", ".reg .b32 %r<2>;", ".reg .b64 %d<2>;", "mov.u32 %r0, %tid.x;")
    for axis in "xyz":
        yield from (f"mov.u32 %r1, %ctaid.{axis};", "or.b32 %r0, %r0, %r1;")
    yield from ("setp.ne.b32 %p, %r0, 0;", "@%p bra DONE;")
    yield f"ld.param.b64 %d0, [{first_pointer(kernel).name}];"
    for p in kernel.params:
        size, register = (8, "%d1") if p.size % 8 == 0 else (4, "%r1")
        for at in range(0, p.size, size):
            yield f"ld.param.b{8 * size} {register}, [{p.name}+{at}];"
            yield f"st.global.b{8 * size} [%d0+{p.offset + at}], {register};"
    yield from ("DONE:", "ret;")


def first_pointer(kernel: Any) -> Any:
    return next(p for p in kernel.params if p.size == 8)


def sections(elf: bytes | bytearray) -> dict[str, tuple[int, int]]:
    """Name → place and size of each section of an ELF file."""
    (offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, offset + n * size) for n in range(count)]
    starts = [headers[names][4] + header[0] for header in headers]
    result = [elf[start : elf.index(b"\0", start)].decode() for start in starts]
    return {name: (header[4], header[5]) for name, header in zip(result, headers, strict=True)}


def read(folder: Path, answers: Path) -> None:
    """What the driver passes at the launches of every build.

    Each build has a process of its own, which may fail.
    """
    import torch  # noqa: F401 (the forked processes find it imported)

    places = [x.parent for x in sorted(folder.glob(f"*/*/{TARGET}/*/build.json"))]
    with multiprocessing.get_context("fork").Pool(AT_ONCE, maxtasksperchild=1) as pool, answers.open("w") as out:
        asked = [(place, pool.apply_async(stored, (place,))) for place in places]
        for place, waited in asked:
            try:
                result = waited.get(timeout=LIMIT_SECONDS)
            except Exception as error:  # the others are to be asked all the same
                result = [{"build": build_name(place), "error": f"{error!r}"[:300]}]
            out.writelines(json.dumps(reply) + "\n" for reply in result)
            out.flush()


def build_name(place: Path) -> str:
    return "/".join(place.parts[-4:])


def stored(place: Path) -> list[dict[str, Any]]:
    """Return launch parameters on workloads that cover every kernel with descriptors."""
    wanted = {path.stem for path in place.glob("*.storing")}
    result: list[dict[str, Any]] = []
    for workload in itertools.islice(workloads_of(place), WORKLOADS):
        try:
            result += [x for x in stored_on(place, workload) if x["file"] in wanted]
        except Exception as error:  # what was stored before counts, and an error of the GPU's is there to stay
            return [*result, {"build": build_name(place), "error": f"{workload.id}: {error!r}"[:300]}]
        wanted -= {reply["file"] for reply in result}
        if not wanted:
            break
    return result


def stored_on(place: Path, workload: Any) -> list[dict[str, Any]]:
    """The parameters of each launch of a build's call whose kernel takes descriptors."""
    from cutesnake.model.catalog import load_kernel, load_operator
    from cutesnake.stages.load import cutile
    from cutesnake.stages.load.build import LoadedBuild

    operator, result = load_operator(place.parts[-4]), []

    def opened(path: Path) -> Any:
        def launched(symbol: str, grid: tuple[int, int, int], values: Sequence[Any], early: bool) -> None:
            cubin = path.with_suffix(".storing")
            if cubin.exists():
                visible = [bytes(x) for x in cutile.flatten(values)]
                every = parameters_on_the_gpu(cubin, kernel_of(path.with_suffix(".ptx")), grid, visible)
                about = {"build": build_name(place), "file": path.stem, "workload": workload.id}
                result.append({**about, "visible": len(visible), "parameters": every.hex()})

        return launched

    inputs, outputs = operator.make_inputs(workload, 0, DEVICE), operator.make_outputs(workload, DEVICE)
    with cutile.opened_by(opened, PROCESSORS):
        runner = load_kernel(*place.parts[-4:-2]).bind(LoadedBuild(place), workload, inputs, outputs)
        for call in (runner.plan, runner.enqueue):
            if call is not None:
                call(0)
    return result


def workloads_of(place: Path) -> Iterator[Any]:
    """The workloads of the operator's lists, a few small ones first, that the build serves."""
    from cutesnake.model.catalog import load_kernel
    from cutesnake.planning.sweep import make_sweep, read_sweep

    name, kernel = place.parts[-4], load_kernel(*place.parts[-4:-2])
    sweep = make_sweep(name, read_sweep(name, {}))
    for workload in (*sweep.simulated("short"), *sweep.workloads(), *sweep.simulated("full")):
        ids = [] if kernel.supports(workload) else [variant.id for variant in kernel.variants(workload, TARGET)]
        if place.name in ids:
            yield workload


def parameters_on_the_gpu(cubin: Path, kernel: Any, grid: tuple[int, int, int], visible: list[bytes]) -> bytes:
    """What a launch of a storing cubin with these parameters stores.

    What it stores over is put back.
    """
    from cuda.bindings import driver

    pointer, size = int.from_bytes(visible[kernel.params.index(first_pointer(kernel))], "little"), kernel.param_bytes
    if pointer % 8:
        raise ValueError(f"{kernel.name} has its first array at {pointer:#x}, where eight bytes cannot be stored")
    before, after = (ctypes.create_string_buffer(size) for _ in range(2))
    checked(driver.cuCtxSynchronize())
    checked(driver.cuMemcpyDtoH(ctypes.addressof(before), pointer, size))
    launch(cubin, kernel.name, grid, 1, visible)
    checked(driver.cuMemcpyDtoH(ctypes.addressof(after), pointer, size))
    checked(driver.cuMemcpyHtoD(pointer, ctypes.addressof(before), size))
    return after.raw


def compare(folder: Path, answers: Path) -> None:
    """A line per launch: how many descriptors the driver and ptxsim make equal.

    Ends with 1 if any differ.
    """
    wrong, merged = 0, set()
    for reply in map(json.loads, answers.read_text().splitlines()):
        if "error" in reply:
            print(f"{reply['build']}: {reply['error']}")
            wrong += 1
            continue
        ptx = folder / reply["build"] / f"{reply['file']}.ptx"
        merged.add(ptx.with_suffix(".storing"))
        kernel, gpu = kernel_of(ptx), bytes.fromhex(reply["parameters"])
        visible = [gpu[p.offset : p.offset + p.size] for p in kernel.params[: reply["visible"]]]
        own = parameter_block(ptx.with_suffix(".cubin"), ptxsim.Module.from_file(ptx), kernel.name, visible).tobytes()
        places = [p.offset for p in kernel.params if p.size == DESCRIPTOR]
        same = [own[at : at + WRITTEN] == gpu[at : at + WRITTEN] for at in places]
        wrong += not all(same)
        say = f"{sum(same)} of {len(same)} descriptors equal"
        print(f"{reply['build']} {reply['file']}, {reply['workload']}: {say}")
        for at in (at for at, same in zip(places, same, strict=True) if not same):
            print(f"  the GPU  {gpu[at : at + WRITTEN].hex()}\n  ptxsim   {own[at : at + WRITTEN].hex()}")
    for path in sorted({*folder.rglob("*.storing")} - merged):
        print(f"{build_name(path.parent)} {path.stem}: not launched")
    sys.exit(bool(wrong))


def checked(reply: tuple[Any, ...]) -> Any:
    status, *values = reply
    if int(status):
        raise RuntimeError(f"the driver says {status}")
    return values[0] if values else None


def launch(
    cubin: Path, symbol: str, grid: tuple[int, int, int], threads: int, parameters: list[bytes], shared: int = 0
) -> None:
    """Launch a kernel with these parameters and dynamic shared bytes, and wait."""
    from cuda.bindings import driver

    module = checked(driver.cuModuleLoad(str(cubin).encode()))
    function = checked(driver.cuModuleGetFunction(module, symbol.encode()))
    checked(driver.cuFuncLoad(function))
    if shared:
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(function, attribute, shared))
    kept = [ctypes.create_string_buffer(x, len(x)) for x in parameters]
    pointers = (ctypes.c_void_p * len(kept))(*[ctypes.addressof(x) for x in kept])
    checked(driver.cuLaunchKernel(function, *grid, threads, 1, 1, shared, 0, ctypes.addressof(pointers), 0))
    checked(driver.cuCtxSynchronize())


def run(folder: Path) -> None:
    import torch

    (place,) = (folder / MATMUL / TARGET).glob("*")
    module = ptxsim.Module.from_file(place / "kernel.ptx")
    ((symbol, kernel),) = module.kernels.items()
    tile = json.loads((place / "build.json").read_text())["variant"]["params"]
    shared = sum(int(size) for _, size in SHARED.findall((place / "kernel.ptx").read_text()))
    for m, n, k in SIZES:
        a, b = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
        driver_made, own_made = (torch.full((m, n), float("nan"), device="cuda").bfloat16() for _ in range(2))
        grid = (-(-m // tile["tile_size_m"]) * -(-n // tile["tile_size_n"]), 1, 1)
        launch(place / "kernel.cubin", symbol, grid, 1, visible_parameters(a, b.T, driver_made))
        visible = visible_parameters(a, b.T, own_made)
        block = parameter_block(place / "kernel.cubin", module, symbol, visible)
        every = [block[p.offset : p.offset + p.size].tobytes() for p in kernel.params]
        launch(place / "plain", symbol, grid, kernel.directives["reqntid"][0], every, shared)
        same = torch.equal(driver_made.view(torch.int16), own_made.view(torch.int16))
        error = (driver_made.float() - a.float() @ b.float().T).abs().max().item()
        print(json.dumps({"m": m, "n": n, "k": k, "same_bits": same, "largest_error": error}), flush=True)


def visible_parameters(*arrays: Any) -> list[bytes]:
    """The parameters that stand for arrays by cuTile's calling convention."""
    made: list[bytes] = []
    for x in arrays:
        made.append(x.data_ptr().to_bytes(8, "little"))
        made += [size.to_bytes(4, "little") for size in (*x.shape, *x.stride())]
    return made


if __name__ == "__main__":
    commands = {"prepare": prepare, "read": read, "compare": compare, "run": run}
    commands[sys.argv[1]](*map(Path, sys.argv[2:]))
