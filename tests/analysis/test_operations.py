"""The table of operations.

What is read off code, what counts as met, and that our kernels meet what others do not.
"""

import pytest

import sample
from builds import build, launches, simulate
from cutesnake.analysis.operations.code import Use, ptx_uses, sass_opcodes
from cutesnake.analysis.operations.table import Code, OperationsError, make_table, read_builds, read_operations
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT
from cutesnake.report.operations import render

LIST = ROOT / "config" / "operations.yaml"
PTX = """
	.loc	1 12 9
	mov.b32 	%r1, 0;
	.loc	2 40 3
	@%p1 cp.async.cg.shared.global [%r1], [%rd1], 16;
	.loc	2 41 3
	cp.async.cg.shared.global [%r1], [%rd1], 16;
	tcgen05.wait::ld.sync.aligned;
	.file	1 "lib/other/thing.py"
	.file	2 "kernels/some/cute/kernel.py"
"""
SASS = """
        /*0010*/                   LDC R1, c[0x0][0x37c] ;
        /*0020*/              @!P0 LDGSTS.E.BYPASS.128 [R3], desc[UR4][R4.64] ;
        /*0030*/              @UP1 UTMALDG.2D [UR8], [UR4] ;
"""


def code(simulated: bool = True, **opcodes: int) -> Code:
    identity = {"operator": "some", "kernel": "cute_sm90", "target": "sm_100a", "variant": {"id": "v", "params": {}}}
    names = {name.replace("__", "."): count for name, count in opcodes.items()}
    built = {**sample.build(identity), "kernel": "cute"}
    made = Code(
        record.convert("compile", built, "a build"),
        [Use(name, 1, "kernels/some.py:1") for name in names],
        sass_opcodes(SASS),
    )
    if simulated:
        made.simulated = True
        made.opcodes.update(names)
    return made


def test_opcodes_come_with_counts_and_the_line_of_their_first_use() -> None:
    result = {use.opcode: use for use in ptx_uses(PTX)}
    assert result["cp.async.cg.shared.global"] == Use("cp.async.cg.shared.global", 2, "kernels/some/cute/kernel.py:40")
    assert result["mov.b32"].source == "other/thing.py:12"
    assert result["tcgen05.wait::ld.sync.aligned"].count == 1
    assert sass_opcodes(SASS) == {"LDC": 1, "LDGSTS.E.BYPASS.128": 1, "UTMALDG.2D": 1}


def test_a_list_that_cannot_be_used_is_refused_in_one_line(tmp_path) -> None:
    path = tmp_path / "operations.yaml"
    for text, message in (
        ("g: [{name: x, ptx: 'a(', sass: null}]", "g: x: not a regular expression"),
        ("g: [{name: x, ptx: a}]", "the keys are name, ptx; expected"),
        ("g: [{name: x, ptx: '', sass: null}]", "ptx is empty"),
    ):
        path.write_text(text)
        with pytest.raises(OperationsError, match=message.replace("(", r"\(")):
            read_operations(path)


def test_rows_say_code_and_count_and_what_nobody_has_is_said_on_the_page(tmp_path) -> None:
    path = tmp_path / "operations.yaml"
    path.write_text("g: [{name: copy, ptx: 'cp\\.async', sass: LDGSTS}, {name: none, ptx: never, sass: null}]")
    table = make_table(read_operations(path), [code(False, cp__async__ca=1), code(cp__async__cg=5)])
    record.check("operations", table, "a table")
    rows = table.operations[0].builds
    assert [row.simulated for row in rows] == [5, None]
    assert (rows[0].ptx, rows[0].sass, rows[0].source) == (
        "cp.async.cg",
        "LDGSTS.E.BYPASS.128",
        "kernels/some.py:1",
    )
    where, kernel = rows[0].operator, rows[0].kernel
    assert f'href="{where}.html#kernel-{where}-{kernel}"' in render(table, "front.html", "gemm_of_none")
    page = render(table, "front.html", where)
    assert f'href="../front.html#kernel-{where}-{kernel}"' in page
    assert "contains 1 of 2 operations" in page and "No kernel of this run has:</b> none" in page


def test_a_shape_counts_only_where_a_launch_ran_it(tmp_path) -> None:
    path = tmp_path / "operations.yaml"
    path.write_text("g: [{name: shape, ptx: mma, sass: null, product: 'kind::f16 cta_group::2 256x256x16'}]")
    other, same = code(mma=3), code(mma=3)
    other.products["kind::f16 cta_group::2 256x128x16"] = 3
    same.products["kind::f16 cta_group::2 256x256x16"] = 2
    rows = make_table(read_operations(path), [other, same, code(False, mma=3)]).operations[0].builds
    assert [row.simulated for row in rows] == [2]


def test_the_list_has_every_copy_that_nvidia_documents() -> None:
    # The names of the page «cpasync submodule» of NVIDIA's documentation that put instructions into a kernel.
    listed = " ".join(operation.name for operation in read_operations(LIST) if operation.group == "cpasync")
    copies = ("CopyG2SOp", "CopyBulkTensorTileG2SOp", "CopyBulkTensorTileG2SMulticastOp", "CopyBulkTensorTileS2GOp")
    more = ("CopyReduceBulkTensorTileS2GOp", "CopyDsmemStoreOp", "LoadCacheMode.ALWAYS", "LoadCacheMode.GLOBAL")
    maps = ("prefetch_descriptor", "copy_tensormap", "update_tma_descriptor", "fence_tma_desc_acquire")
    assert [
        x for x in (*copies, *more, *maps, "cp_fence_tma_desc_release", "fence_tma_desc_release") if x not in listed
    ] == []


# Builds that have every operation between them: operator, kernel, target, number of the variant, workload.
SM100 = "sm_100a"
BUILDS = [
    *(
        ("tensor_products", kernel, SM100, 0, {"m": 256, "n": 256, "k": 512, "dtype": dtype})
        for kernel in ("cute_pair", "cute_single")
        for dtype in ("fp16", "tf32", "fp8", "int8", "mxf4")
    ),
    ("async_copies", "cute_l2", SM100, 0, {"rows": 32, "columns": 64}),
    ("async_copies", "cute_descriptor", SM100, 0, {"rows": 32, "columns": 64}),
    ("mla_decode", "cutlass_fp16", SM100, 0, {"batch": 1, "kv_length": 256, "dtype": "fp16"}),
    ("fmha_backward", "cutlass", SM100, 0, {"batch": 1, "length": 256}),
    ("mamba2_ssd", "cutlass", SM100, 0, {"batch": 1, "length": 256}),
    ("gemm", "cutlass_sm90", "sm_90a", 0, {"m": 256, "n": 256, "k": 256}),
    ("gemm", "cutlass_persistent_prefetch", SM100, 0, {"m": 256, "n": 256, "k": 256}),
    ("tutorial_gemm", "cutlass_4", SM100, 0, {"m": 512, "n": 512, "k": 256, "dtype": "fp16"}),
    ("rmsnorm", "cutlass_rmsnorm", SM100, 0, {"rows": 2, "columns": 65536}),
    ("gemm_blockscaled", "cutlass_persistent", SM100, 0, {"m": 256, "n": 512, "k": 512, "dtype": "mxfp8"}),
    ("gemm_blockscaled", "cutlass_persistent", SM100, 2, {"m": 256, "n": 512, "k": 512, "dtype": "mxfp8"}),
    ("gemm_blockscaled", "cutlass_persistent", SM100, 0, {"m": 256, "n": 512, "k": 512, "dtype": "nvfp4"}),
    ("gemm_blockscaled", "cutlass_persistent", SM100, 2, {"m": 256, "n": 512, "k": 512, "dtype": "nvfp4"}),
    ("gemm_grouped", "cutlass_sm100", SM100, 0, {"groups": 2, "m": 96, "n": 160, "k": 96}),
    ("mamba2_ssd", "tilegym", SM100, 0, {"batch": 1, "length": 256}),
    ("mamba2_ssd", "tilegym", "sm_90a", 0, {"batch": 1, "length": 256}),
    ("gemm_grouped_masked", "cutile", "sm_90a", 0, {"groups": 4, "m": 200, "n": 136, "k": 400, "dtype": "fp8"}),
    ("fmha_mixed_decode", "cutlass", SM100, 0, {"batch": 1, "kv_length": 256, "dtype": "int8"}),
    ("fmha_mixed_decode", "cutlass", SM100, 0, {"batch": 1, "kv_length": 256, "dtype": "int4"}),
    ("mla_decode", "cute_sm90", "sm_90a", 0, {"batch": 128, "kv_length": 4096, "dtype": "bf16"}),
]
# Products of a warp: no kernel of the catalogue uses mma.sync, and the last two exist for sm_120 only.
MISSING = ["MmaF16BF16Op of a warp", "MmaMXF4Op of a warp (sm_120)", "MmaMXF4NVF4Op of a warp (sm_120)"]


def chosen(operator: str, kernel: str, target: str, number: int, values: dict):
    return load_kernel(operator, kernel).variants(load_operator(operator).Workload(**values), target)[number]


@pytest.mark.slow
def test_every_operation_but_those_of_a_warp_is_met_by_a_kernel_of_the_catalogue(tmp_path) -> None:
    records, checks = [], []
    for operator, kernel, target, number, values in BUILDS:
        variant = chosen(operator, kernel, target, number, values)
        records.append(build(operator, kernel, target, variant) / "build.json")
        if operator == "tensor_products" or (values.get("dtype") == "nvfp4" and number == 0):
            checks.append(tmp_path / f"{len(checks)}.json")
            result = simulate(operator, kernel, target, variant, values)
            assert result["reason"] is None
            record.write("correctness", checks[-1], result)
    table = record.plain(make_table(read_operations(LIST), read_builds(records, checks)))
    assert [operation["name"] for operation in table["operations"] if not operation["builds"]] == MISSING
    ran = {o["name"] for o in table["operations"] if any(row["simulated"] for row in o["builds"])}
    assert {"MmaF16BF16Op of 256x256x16", "MmaMXF4NVF4Op of 256x256x64", "MmaI8Op, one CTA"} <= ran


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["cute_pair", "cute_single"])
@pytest.mark.parametrize("dtype", ["fp16", "tf32", "fp8", "int8", "mxf4"])
def test_products_of_every_kind_are_right_in_several_tiles_and_launched_as_told(dtype, kernel) -> None:
    values = {"m": 512, "n": 256, "k": 512, "dtype": dtype}
    variant = chosen("tensor_products", kernel, SM100, 0, values)
    work = load_operator("tensor_products").Workload(**values)
    result = simulate("tensor_products", kernel, SM100, variant, values, ("randn", "extremes"), ("random", "late"))
    assert result["reason"] is None
    reported, captured = launches("tensor_products", kernel, build("tensor_products", kernel, SM100, variant), work)
    assert reported == captured


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("kernel", ["cute_l2", "cute_descriptor"])
def test_copies_are_exact_in_several_tiles(kernel, target) -> None:
    values = {"rows": 96, "columns": 128}
    variant = chosen("async_copies", kernel, target, 0, values)
    result = simulate("async_copies", kernel, target, variant, values, ("numbered",), ("random", "tma_late"))
    assert result["reason"] is None
    text = (build("async_copies", kernel, target, variant) / "kernel.ptx").read_text()
    assert {"cute_l2": "cp.async.cg.shared.global", "cute_descriptor": "tensormap.replace"}[kernel] in text


@pytest.mark.parametrize("dtype", ["fp16", "tf32", "fp8", "int8", "mxf4"])
def test_products_of_codes_have_the_values_that_they_stand_for(dtype) -> None:
    torch = pytest.importorskip("torch")
    problem = load_operator("tensor_products")
    work = problem.Workload(64, 32, 128, dtype)
    inputs = problem.make_inputs(work, 0)
    true, same = problem.reference(inputs, work).d, problem.same_precision(inputs, work).d
    assert float((same - true).norm() / true.norm()) <= problem.tolerance(dtype)
    values = problem.decode(inputs.a)
    assert torch.equal(problem.decode(problem.encode(values / (32 if dtype == "int8" else 1), dtype)), values)
    assert inputs.a.numel() * inputs.a.element_size() * 8 == 64 * 128 * problem.BITS[dtype]
    outputs = problem.make_outputs(work)
    load_kernel("tensor_products", "torch_matmul").bind(None, work, inputs, outputs)(0)
    torch.testing.assert_close(outputs.d.float(), true, rtol=1e-3, atol=1e-3)


def test_what_our_small_kernels_take() -> None:
    products, copies = load_operator("tensor_products").Workload, load_operator("async_copies").Workload
    pair, descriptor = load_kernel("tensor_products", "cute_pair"), load_kernel("async_copies", "cute_descriptor")
    assert pair.supports(products(256, 256, 256, "mxf4")) is None
    assert "multiples of 256" in pair.supports(products(256, 256, 128, "mxf4"))
    assert descriptor.supports(copies(32, 64)) is None and "multiples of 32" in descriptor.supports(copies(33, 64))
