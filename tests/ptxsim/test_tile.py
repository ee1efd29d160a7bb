"""cuTile's cubins.

Their own host code writes the TMA descriptors, and what is launched with them computes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import tile_descriptors

import ptxsim
from ptxsim.host.cutile import _section
from ptxsim.memory.tensor_map import decode

NEEDED = "these cubins are built by the stages of cutesnake, whose catalogue is not here"
SIZES = {"m": 200, "n": 264, "k": 136, "activation": "silu", "dtype": "bf16"}


@pytest.fixture(scope="module")
def epilogue() -> Path:
    """Folder of our GEMM with an epilogue, in cuTile for sm_100a."""
    build = pytest.importorskip("builds", reason=NEEDED).build
    catalog = pytest.importorskip("cutesnake.model.catalog", reason=NEEDED)
    workload = catalog.make_workload("gemm_epilogue", SIZES)
    variant = next(iter(catalog.load_kernel("gemm_epilogue", "cutile").variants(workload, "sm_100a")))
    return build("gemm_epilogue", "cutile", "sm_100a", variant)


def launched(
    folder: Path, cubin: Path | None = None, early: bool = False
) -> tuple[ptxsim.Launch, list[np.ndarray], list[int]]:
    """A launch on zeros, its arrays, and where its descriptors lie among its parameters."""
    module = ptxsim.Module.from_file(folder / "kernel.ptx")
    (kernel,) = module.kernels.values()
    m, n, k = SIZES["m"], SIZES["n"], SIZES["k"]
    arrays = [np.zeros(shape, np.uint16) for shape in ((m, k), (n, k), (m, n), (m, n))]
    arguments: list[object] = []
    sizes = [p.size for p in kernel.params if p.size != 128]
    for array in arrays:
        arguments.append(ptxsim.Tensor(array, "bfloat16", array.shape, tuple(s // 2 for s in array.strides)))
    values = sum(1 + 2 * array.ndim for array in arrays)
    arguments += [bytes(size) for size in sizes[values:]]
    launch = ptxsim.tile_launch(cubin or folder / "kernel.cubin", module, kernel.name, (1,), arguments, early=early)
    return launch, arrays, [p.offset for p in kernel.params if p.size == 128]


def test_descriptors_name_the_arrays_with_their_sizes_and_strides(epilogue) -> None:
    launch, arrays, places = launched(epilogue)
    assert places
    by_address = {array.ctypes.data: array for array in arrays}
    for place in places:
        result = decode(launch.params[place : place + 128])
        array = by_address[result.address]
        assert result.sizes[: array.ndim] == array.shape[::-1] and result.bits == 16
        assert result.strides[1] == array.strides[0]


def test_boxes_are_the_bytes_that_barriers_expect(epilogue) -> None:
    # What the PTX announces to an mbarrier is a sum of boxes that the host code put into the descriptors.
    launch, _, places = launched(epilogue)
    boxes = [decode(launch.params[place : place + 128]).box_bytes for place in places]
    ring = [boxes[0], boxes[1], boxes[0] + boxes[1]]
    text = (epilogue / "kernel.ptx").read_text()
    expected = [line.split(",")[-1].strip(" ;") for line in text.splitlines() if "arrive.expect_tx" in line]
    assert expected
    for register in expected:
        bytes_expected = (
            int(text.split(f"\t{register}, ")[1].split(";")[0]) if register.startswith("%") else int(register)
        )
        assert bytes_expected in [x * many for x in ring for many in (1, 2, 4)], (bytes_expected, boxes)


def test_the_code_that_asks_a_card_stores_every_parameter(epilogue, tmp_path) -> None:
    for name in ("kernel.cubin", "kernel.ptx"):
        shutil.copy(epilogue / name, tmp_path / name)
    (tmp_path / "kernel.ptx").write_text(tile_descriptors.storing_text(epilogue / "kernel.ptx"))
    launch, arrays, places = launched(tmp_path)
    ptxsim.run([launch])
    stored = arrays[0].tobytes()[: len(launch.params)]
    assert places and any(launch.params)
    for p in launch.kernel.params:
        assert stored[p.offset : p.offset + p.size] == launch.params[p.offset : p.offset + p.size], p.name


def test_the_cubin_that_asks_a_card_differs_in_its_machine_code_alone(epilogue) -> None:
    pytest.importorskip("nvidia", reason="ptxas comes with a package of this name")
    whole, asking = (epilogue / "kernel.cubin").read_bytes(), tile_descriptors.storing(epilogue / "kernel.ptx")
    start, size = tile_descriptors.sections(whole)[f".text.{tile_descriptors.kernel_of(epilogue / 'kernel.ptx').name}"]
    assert asking[start : start + size] != whole[start : start + size]
    assert (asking[:start], asking[start + size :]) == (whole[:start], whole[start + size :])


def test_arguments_that_do_not_fit_are_refused(epilogue) -> None:
    module = ptxsim.Module.from_file(epilogue / "kernel.ptx")
    (name,) = module.kernels
    with pytest.raises(ValueError, match="takes parameters of"):
        ptxsim.tile_launch(epilogue / "kernel.cubin", module, name, (1,), (1, 2))
    with pytest.raises(ValueError, match="takes parameters of"):  # with the PTX next to the cubin
        ptxsim.Launch.from_cubin(epilogue / "kernel.cubin", name, (1,), (1, 2))
    with pytest.raises(ValueError, match="has no kernel other"):
        ptxsim.tile_launch(epilogue / "kernel.cubin", module, "other", (1,), ())


def test_a_launch_says_whether_it_may_start_early(epilogue) -> None:
    assert launched(epilogue, early=True)[0].early
    assert not launched(epilogue)[0].early


def test_a_cubin_that_cannot_be_used_says_why(epilogue, tmp_path) -> None:
    def refusal(content: bytes) -> str:
        (tmp_path / "kernel.cubin").write_bytes(content)
        with pytest.raises(ptxsim.CaptureError) as caught:
            launched(epilogue, tmp_path / "kernel.cubin")
        return str(caught.value)

    whole = (epilogue / "kernel.cubin").read_bytes()
    assert "is not a cubin" in refusal(b"text")
    assert "cannot be read as a cubin" in refusal(whole[: len(whole) // 2])
    host = _section(epilogue / "kernel.cubin", ".nv.host")
    assert host is not None and host[:4] == b"\x7fELF"
    assert "carries no host code" in refusal(whole.replace(host[:4], b"\0\0\0\0").replace(b"\0\0\0\0", b"\x7fELF", 1))
    stranger = whole.replace(b"__CUDA_TILEIR_CALLBACKS\0", b"__CUDA_TILEIR_CALLBACKZ\0")
    assert "no table of callbacks" in refusal(stranger)


def test_memory_of_each_cta_is_its_own() -> None:
    launch = ptxsim.Launch(None, None, (2, 3, 4), (32, 1, 1), b"", cta_memory=(1 << 20, 256))  # type: ignore[arg-type]
    places = {launch.memory_of((x, y, z)) for x in range(2) for y in range(3) for z in range(4)}
    assert len(places) == 24 and min(places) == 1 << 20 and max(places) == (1 << 20) + 23 * 256
