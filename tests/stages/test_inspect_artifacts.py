"""Reading cubin, SASS and PTX, compared with NVIDIA's tools on the same files."""

import re
import subprocess

import pytest

pytest.importorskip("elftools", reason="a GPU machine inspects nothing and need not have pyelftools")

import tiny_build
from cutesnake.model.record import RecordError
from cutesnake.stages.inspect.cubin import _barriers_of_flags, read_cubin
from cutesnake.stages.inspect.ptx import read_ptx
from cutesnake.stages.inspect.sass import CLASSES, read_sass

TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    folder = tmp_path_factory.mktemp("everything")
    tiny_build.assemble(tiny_build.BLACKWELL, "sm_100a", folder)
    return folder


def spilling(folder, target, *options, bound=""):
    message = tiny_build.assemble(tiny_build.SPILLING.format(target=target, bound=bound), target, folder, *options)
    return read_cubin(folder / "kernel.cubin").kernels[0], message


def test_a_cubin_gives_what_the_source_asks_for(everything) -> None:
    (kernel,) = read_cubin(everything / "kernel.cubin").kernels
    assert kernel.symbol == "everything"
    assert (kernel.required_threads, kernel.max_threads) == (256, None)
    assert kernel.blocks_per_cluster == 2
    assert kernel.static_shared_bytes == 4096 + 128  # buffer, and barriers and column before it
    assert (kernel.named_barriers, kernel.mbarriers) == (2, 8)  # bar.sync 1 reserves 0 too
    assert (kernel.stack_bytes, kernel.code_bytes % 128) == (0, 0)


@pytest.mark.parametrize(("target", "registers"), [("sm_90a", 255), *((target, 32) for target in TARGETS)])
def test_registers_stack_and_shared_memory_are_those_of_ptxas_and_cuobjdump(tmp_path, target, registers) -> None:
    kernel, message = spilling(tmp_path, target, f"--maxrregcount={registers}")
    assert f"Used {kernel.registers_per_thread} registers" in message
    assert f"{kernel.stack_bytes} bytes stack frame" in message
    assert f" {kernel.static_shared_bytes} bytes smem" in message  # ptxas leaves the system's kilobyte out, too
    assert (kernel.stack_bytes > 0) == (registers < 64)
    command = [tiny_build.tool("cuobjdump"), "--dump-resource-usage", str(tmp_path / "kernel.cubin")]
    usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    reserved = 0 if target == "sm_80" else 1024  # cuobjdump counts it in
    assert f"REG:{kernel.registers_per_thread} " in usage and f"STACK:{kernel.stack_bytes} " in usage
    assert f"SHARED:{kernel.static_shared_bytes + reserved} " in usage


def test_a_bound_on_the_threads_is_no_requirement(tmp_path) -> None:
    kernel, _ = spilling(tmp_path, "sm_90a", bound=".maxntid 64, 2, 1")
    assert (kernel.required_threads, kernel.max_threads) == (None, 128)
    kernel, _ = spilling(tmp_path, "sm_90a")
    assert (kernel.required_threads, kernel.max_threads, kernel.blocks_per_cluster) == (None, None, None)


def test_named_barriers_in_the_flags_of_the_code() -> None:
    assert (_barriers_of_flags(0x400006), _barriers_of_flags(0x6)) == (4, 0)


def test_a_cubin_cut_short_anywhere_is_one_clear_line(everything, tmp_path) -> None:
    whole = (everything / "kernel.cubin").read_bytes()
    path = tmp_path / "kernel.cubin"
    for size in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(RecordError) as error:
            read_cubin(path)
        assert re.fullmatch(
            rf"{re.escape(str(path))}: not a whole cubin \(.+\); delete its folder .*", str(error.value)
        )


def test_a_file_that_is_no_cubin_is_refused(tmp_path) -> None:
    (tmp_path / "kernel.cubin").write_text("not an ELF file\n")
    with pytest.raises(RecordError, match="not a whole cubin"):
        read_cubin(tmp_path / "kernel.cubin")
    with pytest.raises(RecordError, match="not EM_CUDA"):
        read_cubin(tiny_build.tool("ptxas"))


def test_instruction_classes(everything) -> None:
    mix = read_sass((everything / "kernel.sass").read_text())["everything"]
    counted = {name: mix.classes[name] for name in ("tma_load", "tma_multicast", "tma_store", "tma_reduce")}
    assert counted == dict.fromkeys(counted, 2)  # a tensor and a plain bulk copy of each kind
    assert (mix.classes["special_function"], mix.classes["global_memory"]) == (1, 2)
    assert mix.opcodes["SYNCS.EXCH.64"] == 8  # the mbarriers' initialisation
    assert mix.classes["barrier"] >= 8 + len({"UCGABAR_ARV", "UCGABAR_WAIT", "BAR", "UTMACMDFLUSH"})
    assert sum(mix.classes.values()) == sum(mix.opcodes.values()) > 60
    assert tuple(mix.classes) == CLASSES


def test_cuobjdumps_text_counts_alike(everything) -> None:
    command = [tiny_build.tool("cuobjdump"), "-sass", str(everything / "kernel.cubin")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert read_sass(text) == read_sass((everything / "kernel.sass").read_text())


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("HMMA.16816.F32.BF16 R4, R8, R12, R4", "tensor_core"),
        ("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24", "tensor_core"),
        ("UTCHMMA.2CTA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0", "tensor_core"),
        ("UTCQMMA gdesc[UR4], gdesc[UR6], tmem[UR8], tmem[UR10], idesc[UR11], UP0", "tensor_core"),
        ("@P0 UTMALDG.4D.2CTA [UR8], [UR4]", "tma_load"),
        ("@!UP0 UTMALDG.3D.MULTICAST [UR8], [UR4], UR9", "tma_multicast"),
        ("UBLKCP.S.G [UR6], [UR4], UR8", "tma_load"),
        ("UBLKCP.G.S [UR4], [UR6], UR8", "tma_store"),
        ("UTMASTG.2D [UR8], [UR4]", "tma_store"),
        ("UTMAREDG.2D.ADD [UR8], [UR4]", "tma_reduce"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x8], R3", "barrier"),
        ("UTCBAR.2CTA.MULTICAST [UR4], URZ, UR6", "barrier"),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x0", "barrier"),
        ("MUFU.EX2 R5, R4", "special_function"),
        ("LDGSTS.E.128 [R13+0x80], desc[UR18][R2.64]", "global_memory"),
        ("STG.E.NA.ENL2.256 desc[UR4][R2.64], R8, R4", "global_memory"),
        ("LDSM.16.MT88.4 R4, [R2]", "shared_memory"),
        ("STAS [R12.64], R5", "shared_memory"),
        ("LDTM.x32 R4, tmem[UR4]", "tensor_memory"),
        ("STL.64 [R1+0x8], R4", "local_memory"),
        ("HFMA2 R4, -RZ, RZ, 0, 0", "other"),
        ("FFMA R4, R5, R6, R7", "other"),
    ],
)
def test_class_of_an_instruction(line, name) -> None:
    (mix,) = read_sass(f".text.k:\n        /*0010*/                   {line} ;\n").values()
    assert {key: count for key, count in mix.classes.items() if count} == {name: 1}


def test_what_never_executes_is_not_counted() -> None:
    lines = ("@!PT LDS RZ, [RZ] ;", "NOP ;", "NOP;", "EXIT ;", "BRA `(.L_x_1);")
    text = ".text.k:\n" + "\n".join(f"        /*{16 * i:04x}*/    {line}" for i, line in enumerate(lines))
    assert read_sass(text)["k"].opcodes == {"EXIT": 1, "BRA": 1}


def test_register_reallocation_is_read_from_both_forms() -> None:
    text = (
        ".text.k:\n        /*0dd0*/                   USETMAXREG.DEALLOC.CTAPOOL 0x60 ;\n"
        "        /*b800*/                   USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xc0 ;\n"
    )
    assert read_sass(text)["k"].setmaxnreg == (96, 192)


def test_wgmma_that_lie_alone_between_full_waits_are_counted() -> None:
    product = "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR4].tnspB, R24, gsb0"
    arrive, wait = "WARPGROUP.ARRIVE", "WARPGROUP.DEPBAR.LE gsb0, 0x0"
    alone = [arrive, product, wait]
    group = [arrive, product, "@!P0 QGMMA.64x64x32.F32.E4M3 R24, R4, gdesc[UR8], R24", wait]
    one_left = [arrive, product, "WARPGROUP.DEPBAR.LE gsb0, 0x1"]  # the next one is issued before this one ends
    for code, count in ((alone, 1), (group, 0), (alone + group + alone, 2), (one_left * 2 + [wait], 0)):
        lines = [f"        /*{16 * n:04x}*/                   {line} ;\n" for n, line in enumerate(code)]
        assert read_sass(".text.k:\n" + "".join(lines))["k"].serialized == count


def test_ptx_tells_columns_and_pipelines() -> None:
    entry = read_ptx(tiny_build.BLACKWELL)["everything"]
    assert entry.tensor_memory_columns == 128
    assert entry.pipeline_stages == (4,)
    assert (entry.uses_dynamic_shared, entry.local_array_bytes, entry.calls, entry.notes) == (False, 0, 0, {})


@pytest.mark.parametrize(
    ("old", "new", "field", "why"),
    [
        ("mov.b32 %r3, 128;", "ld.global.b32 %r3, [%rd1];", "tensor_memory_columns", "computed while the kernel runs"),
        ("mov.b32 %r3, 128;", "mov.b32 %r3, 128; mov.b32 %r3, 64;", "tensor_memory_columns", "computed while"),
        ("$second:", "", "pipeline_stages", "initialised together"),
        ("[%r1+56], %r10", "[%r1+64], %r10", "pipeline_stages", "initialised together"),
        ("mbarrier.init.shared.b64 [%r1+56], %r10;", "", "pipeline_stages", "array of 4 mbarriers has no second"),
    ],
)
def test_what_ptx_does_not_tell_is_none_with_a_reason(old, new, field, why) -> None:
    assert old in tiny_build.BLACKWELL
    entry = read_ptx(tiny_build.BLACKWELL.replace(old, new))["everything"]
    assert getattr(entry, field) is None
    assert why in entry.notes[field]


def test_two_allocations_are_not_added_up() -> None:
    line = " tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], %r3;\n"
    entry = read_ptx(tiny_build.BLACKWELL.replace(line, 2 * line))["everything"]
    assert entry.tensor_memory_columns is None and "2 allocations" in entry.notes["tensor_memory_columns"]


def test_local_arrays_calls_and_dynamic_shared_memory_are_seen() -> None:
    text = tiny_build.SPILLING.format(target="sm_90a", bound="")
    entry = read_ptx(text)["spilling"]
    assert entry.uses_dynamic_shared and entry.local_array_bytes == 0
    text = text.replace(".reg .b64", ".local .align 16 .b8 __local_depot0[64];\n .local .b32 more[4];\n .reg .b64")
    entry = read_ptx(text.replace("bar.sync 0;", "call.uni helper, (%r1);\n bar.sync 0;"))["spilling"]
    assert (entry.local_array_bytes, entry.calls) == (64 + 16, 1)


def test_every_entry_has_its_own_body() -> None:
    text = tiny_build.SPILLING.format(target="sm_100a", bound="") + tiny_build.BLACKWELL
    entries = read_ptx(text)
    assert set(entries) == {"spilling", "everything"}
    assert entries["spilling"].tensor_memory_columns == 0 and entries["everything"].tensor_memory_columns == 128
    assert entries["spilling"].uses_dynamic_shared and not entries["everything"].uses_dynamic_shared
