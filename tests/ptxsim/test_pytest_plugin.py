"""The pytest plugin: GPU tests of CuTe kernels, unchanged, run in ptxsim; findings fail them."""

from __future__ import annotations

import importlib.util
from importlib.metadata import entry_points

import pytest

from ptxsim import pytest_plugin

pytest_plugins = "pytester"
INSTALLED = any(x.value == "ptxsim.pytest_plugin" for x in entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "ptxsim.pytest_plugin")
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("cutlass") is None or importlib.util.find_spec("torch") is None,
    reason="needs CuTe DSL and torch",
)

# What a GPU test looks like: it skips without a GPU, and nothing in it knows of ptxsim.
KERNEL = """
import cuda.bindings.driver as driver
import cutlass
import cutlass.cute as cute
import pytest
import torch
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor, make_fake_stream, make_ptr

COLUMNS = 128
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@cute.kernel
def reverse_kernel(x: cute.Tensor, y: cute.Tensor, fixed: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    buffer = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(COLUMNS), 16)
    buffer[thread] = x[row, thread]
    if cutlass.const_expr(fixed):
        cute.arch.sync_threads()
    y[row, thread] = buffer[COLUMNS - 1 - thread]  # reads what another warp wrote


@cute.jit
def reverse(x: cute.Tensor, y: cute.Tensor, fixed: cutlass.Constexpr):
    reverse_kernel(x, y, fixed).launch(grid=(x.shape[0], 1, 1), block=(COLUMNS, 1, 1))


@cute.jit
def reverse_on_stream(x: cute.Tensor, y: cute.Tensor, stream: driver.CUstream):
    reverse_kernel(x, y, True).launch(grid=(x.shape[0], 1, 1), block=(COLUMNS, 1, 1), stream=stream)


@cute.jit
def reverse_pointers(x: cute.Pointer, y: cute.Pointer, rows: cutlass.Int32):
    layout = cute.make_layout((rows, COLUMNS), stride=(COLUMNS, 1))
    reverse_kernel(cute.make_tensor(x, layout), cute.make_tensor(y, layout), True).launch(
        grid=(rows, 1, 1), block=(COLUMNS, 1, 1)
    )


@cute.kernel
def table_kernel(table: cute.Tensor, y: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    source = cute.make_ptr(cutlass.Float32, table[row], cute.AddressSpace.gmem, assumed_align=16)
    y[row, thread] = cute.make_tensor(source, cute.make_layout(COLUMNS))[thread]


@cute.jit
def rows_of_table(table: cute.Tensor, y: cute.Tensor):
    table_kernel(table, y).launch(grid=(table.shape[0], 1, 1), block=(COLUMNS, 1, 1))


def tensors():
    x = torch.randn(4, COLUMNS, device=torch.device("cuda"))
    return x, torch.full_like(x, float("nan"))


def check(x, y):
    torch.cuda.synchronize()
    assert y.is_cuda and y.device.type == "cuda"
    torch.testing.assert_close(y, x.flip(1))
"""
RACE = """
def test_race():
    x, y = tensors()
    reverse(from_dlpack(x), from_dlpack(y), False)
    check(x, y)
"""
RIGHT = """
def test_jit():
    x, y = tensors()
    reverse(from_dlpack(x), from_dlpack(y), True)
    check(x, y)

def test_compiled():
    x, y = tensors()
    compiled = cute.compile(reverse, from_dlpack(x), from_dlpack(y), True)
    compiled(from_dlpack(x), from_dlpack(y))
    check(x, y)
    y.zero_()
    compiled.to(None)(from_dlpack(x), from_dlpack(y))
    check(x, y)

def test_stream():
    x, y = tensors()
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    cute.compile(reverse_on_stream, from_dlpack(x), from_dlpack(y), stream)(from_dlpack(x), from_dlpack(y), stream)
    check(x, y)

def test_pointers():
    x, y = tensors()
    pointers = [make_ptr(cutlass.Float32, t.data_ptr(), cute.AddressSpace.gmem, assumed_align=16) for t in (x, y)]
    reverse_pointers(*pointers, 4)
    check(x, y)

def test_tvm_ffi():
    x, y = tensors()
    x.requires_grad_()
    fake = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(), COLUMNS), stride_order=(1, 0))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    cute.compile(reverse_on_stream, fake, fake, stream, options="--enable-tvm-ffi")(x, y)
    check(x, y)
"""


TABLE = """
def test_a_table_of_pointers():
    rows = [torch.randn(COLUMNS, device="cuda") for _ in range(2)]
    table = torch.tensor([x.data_ptr() for x in rows], device="cuda")
    y = torch.empty(2, COLUMNS, device="cuda")
    rows_of_table(from_dlpack(table), from_dlpack(y))
    torch.testing.assert_close(y, torch.stack(rows))

def test_a_view_ends_where_its_storage_ends():
    x = torch.randn(4, COLUMNS, device="cuda")
    y = torch.empty(5, COLUMNS, device="cuda")
    reverse(from_dlpack(x), from_dlpack(y[:3]), True)
    check(x, y[:4])
    reverse(from_dlpack(x), from_dlpack(y[2:]), True)

def test_a_tensor_ends_where_it_ends():
    x = torch.randn(4, COLUMNS, device="cuda")
    reverse(from_dlpack(x), from_dlpack(torch.empty(3, COLUMNS, device="cuda")), True)
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Run pytest in a subprocess on a file with the kernel and these tests."""

    def ran(tests: str, *options: str, on: str | None = "1", ini: str = "", conftest: str = "") -> pytest.RunResult:
        monkeypatch.delenv("CUTE_DSL_ARCH", raising=False)
        monkeypatch.delenv("PTXSIM", raising=False)
        if on is not None:
            monkeypatch.setenv("PTXSIM", on)
        pytester.makepyfile(test_kernel=KERNEL + tests)
        pytester.makeini(f"[pytest]\naddopts = --strict-markers\n{ini}")
        if conftest:
            pytester.makeconftest(conftest)
        return pytester.runpytest_subprocess(*PLUGIN, *options)

    return ran


def line(text: str) -> int:
    """The line of the file under test that holds this text."""
    return next(n for n, x in enumerate(KERNEL.lstrip("\n").splitlines(), 1) if text in x)


RACING = """
import ptxsim
from ptxsim import pytest_plugin
from snippets import kernel_text

BODY = (
    '.loc 1 3 0\\nmov.u32 %r1, dyn; mov.u32 %r2, %tid.x; shl.b32 %r3, %r2, 2; add.u32 %r3, %r1, %r3;'
    'st.shared.u32 [%r3], %r2; xor.b32 %r3, %r3, 128; ld.shared.u32 %r4, [%r3];'
)

def test_race():
    module = ptxsim.Module.from_text(kernel_text(BODY, 0, 256) + f'.file 1 "{__file__}"')
    pytest_plugin._simulation.run([ptxsim.launch(module, "k", (1,), (64,), (), dynamic_shared=256)])
"""


def test_a_finding_fails_the_test_with_its_source_line(pytester: pytest.Pytester, monkeypatch) -> None:
    """CuTe DSL, which takes six seconds to import, is not needed for it."""
    monkeypatch.setattr(pytest_plugin, "_simulation", pytest_plugin.Simulation("sm_90a", pytest_plugin.Options()))
    pytester.makepyfile(RACING)
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["race: warp *", ">   from snippets import kernel_text"])
    result.stdout.fnmatch_lines(["ptxsim: 1 launches, 1 findings (sm_90a)"])


@pytest.mark.slow
def test_a_race_fails_the_test_and_names_both_source_lines(run) -> None:
    result = run(RACE)
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "race: warp " in text and f"test_kernel.py:{line('reads what another warp wrote')}, PTX line" in text
    assert f"test_kernel.py:{line('buffer[thread] = x')}" in text
    assert ">   y[row, thread] = buffer[COLUMNS - 1 - thread]" in text and "1 launches, 1 findings (sm_90a)" in text


@pytest.mark.slow
def test_a_finding_in_a_kernel_below_cutlass_operators_names_its_file(run, pytester: pytest.Pytester) -> None:
    """As NVIDIA's operators are: CuTe DSL takes every module below `cutlass` for its own."""
    folder = pytester.mkdir("cutlass").joinpath("operators")
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "own.py").write_text(KERNEL)
    extend = f"import cutlass\ncutlass.__path__.append({str(folder.parent)!r})\n"
    result = run(f"{extend}from cutlass.operators.own import reverse\n{RACE}")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "own.py:" in text and ">   y[row, thread] = buffer[COLUMNS - 1 - thread]" in text and "jit.py:" not in text


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_every_way_to_call_a_kernel_is_simulated(run, target) -> None:
    result = run(RIGHT, ini=f"ptxsim_arch = {target}")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines([f"ptxsim: 6 launches, 0 findings ({target})"])


@pytest.mark.slow
def test_pointers_in_tensors_are_followed_and_views_have_the_bounds_of_their_storage(run) -> None:
    result = run(TABLE)
    result.assert_outcomes(passed=1, failed=2)
    text = result.stdout.str()
    assert "0 bytes past the end of the storage of y (2560 bytes)" in text
    assert "out-of-bounds: " in text and "0 bytes past the end of y (1536 bytes)" in text


@pytest.mark.slow
@pytest.mark.parametrize("on", [None, "0", ""])
def test_without_the_switch_nothing_changes(run, on) -> None:
    result = run(RACE + RIGHT, on=on)
    result.assert_outcomes(skipped=6)
    assert "ptxsim" not in result.stdout.str()


@pytest.mark.slow
def test_the_ini_file_switches_it_on_and_allows_kinds_of_findings(run) -> None:
    run(RACE, on=None, ini="ptxsim = true").assert_outcomes(failed=1)
    run(RACE, on=None, ini="ptxsim = true\nptxsim_allow = exit race").assert_outcomes(passed=1)
    run(RACE, on=None, ini="ptxsim = true\nptxsim_checks = exit").assert_outcomes(passed=1)
    run(RACE, on="0", ini="ptxsim = true").assert_outcomes(skipped=1)


@pytest.mark.slow
def test_the_marker_sets_how_a_test_is_run(run) -> None:
    run("@pytest.mark.ptxsim(allow=['race'])" + RACE).assert_outcomes(passed=1)
    run("@pytest.mark.ptxsim(schedule='eager', checks=['race'])" + RACE).assert_outcomes(failed=1)
    wrong = run("@pytest.mark.ptxsim(schedule='warps', checks=[], seed=1)" + RACE)
    wrong.assert_outcomes(failed=1)  # no check is on, and under this schedule the numbers are wrong
    assert "Tensor-likes are not close" in wrong.stdout.str() and "0 findings" in wrong.stdout.str()
    every = run("@pytest.mark.ptxsim(schedule='all')" + RIGHT)
    every.assert_outcomes(passed=5)
    assert "ptxsim(schedule=" in run("", "--markers").stdout.str()


@pytest.mark.slow
def test_a_marker_with_an_unknown_option_is_an_error(run) -> None:
    result = run("@pytest.mark.ptxsim(order='all')" + RACE)
    assert result.ret != 0 and "order" in result.stdout.str() + result.stderr.str()


@pytest.mark.slow
def test_a_failing_test_shows_its_findings_too(run) -> None:
    result = run(RACE.replace("check(x, y)", "assert False, 'its own'"))
    result.assert_outcomes(failed=1)
    assert "its own" in result.stdout.str() and "race: warp" in result.stdout.str()


@pytest.mark.slow
def test_a_kernel_in_a_fixture_fails_the_setup(run) -> None:
    fixture = RACE.replace("def test_race", "@pytest.fixture\ndef made") + "\n\ndef test_it(made): ..."
    result = run(fixture)
    result.assert_outcomes(errors=1)
    assert "race: warp" in result.stdout.str()


@pytest.mark.slow
def test_what_cannot_be_simulated_fails_before_any_test(run) -> None:
    wrong = run(RACE, ini="ptxsim_arch = hopper")
    assert wrong.ret == pytest.ExitCode.USAGE_ERROR and 'ptxsim_arch: "hopper"' in wrong.stderr.str()
    late = run(RACE, "-p", "cutlass")
    assert late.ret == pytest.ExitCode.USAGE_ERROR and "was imported before ptxsim" in late.stderr.str()


@pytest.mark.slow
def test_workers_of_xdist_count_too(run) -> None:
    pytest.importorskip("xdist")
    result = run(RACE + RIGHT, "-n", "1")
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(["ptxsim: 7 launches, 1 findings (sm_90a)"])


@pytest.mark.slow
def test_an_exported_object_is_refused(run) -> None:
    result = run("def test_load():\n    cute.runtime.load_module('kernel.o', enable_tvm_ffi=True)")
    result.assert_outcomes(failed=1)
    assert "kernel.o is an exported object, which has no PTX" in result.stdout.str()


@pytest.mark.slow
def test_a_conftest_may_import_the_dsl(run) -> None:
    load = "import ctypes, cutlass.cute as cute\nfor path in cute.runtime.find_runtime_libraries(enable_tvm_ffi=False):"
    load += "\n    ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)"  # as FlashAttention 4 does
    result = run(RACE, conftest=load)
    result.assert_outcomes(failed=1)
    assert "ptxsim: 1 launches" in result.stdout.str()


def test_torch_asked_for_a_gpu_computes_on_the_cpu_until_the_end() -> None:
    import torch

    from ptxsim.host.torch_cuda import cuda_on_cpu

    before = torch.cuda.is_available()
    with cuda_on_cpu((10, 0), 148):
        assert torch.device("cuda").type == "cuda" and torch.device("cuda", 0).index == 0
        assert torch.cuda.is_available() and torch.cuda.get_device_capability() == (10, 0)
        assert torch.cuda.get_device_properties(0).multi_processor_count == 148
        x = torch.arange(4.0, device="cuda:0")
        for y in (x.cuda(), x.to("cuda"), x.to(torch.device("cuda", 0), torch.float64), torch.ones_like(x).cpu()):
            assert y.is_cuda and y.device == torch.device("cuda", 0)
        torch.set_default_device("cuda")
        assert torch.ones(1).is_cuda
        torch.set_default_device(None)
        layer = torch.nn.Linear(4, 2).to("cuda").cuda()
        assert layer(x).shape == (2,) and (x + torch.tensor(1.0, device="cuda"))[0] == 1
        with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.device(0):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            end.record()
        with pytest.raises(RuntimeError, match="no elapsed time"):
            start.elapsed_time(end)
        assert torch.version.cuda and torch._C._cuda_getCurrentRawStream(0) == 0
        with torch.cuda.nvtx.range("a range"):
            torch.cuda.nvtx.mark("a mark")
        places = []

        class Backward(torch.autograd.Function):
            forward = staticmethod(lambda _, x: 2 * x)
            backward = staticmethod(lambda _, gradient: places.append(gradient.is_cuda) or gradient)

        Backward.apply(x.clone().requires_grad_()).sum().backward()
        assert places == [True]
        assert torch.compile(layer)(x).shape == torch.compile(fullgraph=True)(layer)(x).shape == (2,)
        schema = {"mutates_args": (), "schema": "(Tensor x) -> Tensor"}
        twice = torch.library.custom_op("ptxsim_test::twice", lambda x: 2 * x, device_types="cuda", **schema)
        assert twice(x)[3] == 6
        seeded = [torch.Generator("cuda").manual_seed(3), torch.Generator(device="cuda").manual_seed(3)]
        first, second = (torch.rand(4, generator=x, device="cuda") for x in seeded)
        assert torch.equal(first, second) and isinstance(seeded[0], torch.Generator)
    assert not x.is_cuda and x.device.type == "cpu" and torch.cuda.is_available() == before
    assert torch.ones(1, device="cpu").is_cpu
    assert before or not hasattr(torch._C, "_cuda_getCurrentRawStream")


def test_tensors_are_aligned_as_on_a_gpu() -> None:
    import copy

    import numpy as np
    import torch

    from ptxsim.host.torch_cuda import cuda_on_cpu

    with cuda_on_cpu((10, 0), 148):
        array = np.arange(3.0)
        known = torch.from_numpy(array)
        for _ in range(8):  # torch's own alignment is 64 bytes
            x = torch.randn(5, 3, device="cuda", requires_grad=True)
            double = 2 * x.t()
            new = x, double, x.to(torch.float8_e4m3fn), torch.empty(7, device="cuda"), torch.tensor([1, 2]).cuda()
            assert [y.data_ptr() % 512 for y in new] == [0] * 5
            assert all(y.untyped_storage().nbytes() == y.nbytes for y in new)
            assert torch.equal(double, x.t() + x.t()) and double.stride() == (1, 3)
            double.sum().backward()
            assert torch.equal(x.grad, torch.full((5, 3), 2.0))
            place, view = x.data_ptr(), x.detach()[1:]
            view.zero_()
            assert x.data_ptr() == place and not x[1:].any() and x.contiguous() is x and x[0].all()
            known.add_(1)
            part, whole = copy.deepcopy((view, x.detach()))
            part.fill_(7)
            assert whole[1:].eq(7).all() and torch.ones(3, device="cuda").resize_(999)[0] == 1
            exp = x.exp()
            exp.sum().backward()
            assert torch.equal(x.grad, 2 + exp)
            assert torch.func.vmap(lambda row: row + 1)(x).shape == (5, 3)
        assert array.tolist() == [8, 9, 10]
