"""config/devices.yaml: its figures, its names, and what its reader refuses."""

import dataclasses
import re

import pytest
import yaml

from cutesnake.model.paths import ROOT
from cutesnake.model.targets import TARGETS
from cutesnake.planning.devices import DeviceError, read_devices

PATH = ROOT / "config/devices.yaml"


@pytest.fixture(scope="module")
def devices():
    return read_devices(PATH)


def named(devices, name):
    return next(device for device in devices.devices if device.name == name)


@pytest.mark.parametrize(
    ("nvml_name", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("NVIDIA H800", "H800"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA GH200 144G HBM3e", "GH200 HBM3e"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA GB300", "GB300"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA Thor", "Thor"),
        ("NVIDIA H200 NVL", None),  # slower: must not pass for the SXM GPU
        ("NVIDIA H800 PCIe", None),
        ("NVIDIA H20-3e", None),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", None),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),  # a slice: not the whole GPU's figures
        ("NVIDIA GeForce RTX 5090 Laptop GPU", None),
        ("NVIDIA R200", None),
    ],
)
def test_a_card_is_known_by_the_drivers_name(devices, nvml_name, name) -> None:
    result = devices.find(nvml_name)
    assert (result and result.name) == name


def test_ridges_of_mla_decode(devices) -> None:
    # The two that decide what bounds MLA decode (242 FLOP/B). 206 on an H200, 281 on a B200.
    result = (named(devices, name) for name in ("H200", "B200"))
    assert [round(1e3 * d.peak_tflops["bf16"] / d.memory_gb_per_s) for d in result] == [206, 281]


@pytest.mark.parametrize(
    ("name", "dtype", "sparse"),
    [("H200", "bf16", 1979), ("H200", "fp8", 3958), ("B200", "bf16", 4500), ("B200", "fp4", 18000),
     ("B300", "fp8", 9000), ("RTX 5090", "fp8", 838), ("A100 SXM 80GB", "bf16", 624), ("H100 PCIe", "bf16", 1513),
     ("H100 NVL", "fp8", 3341), ("GH200", "bf16", 1979), ("GB200", "bf16", 5000), ("GB200", "fp8", 10000),
     ("GB300", "fp8", 10000), ("GB300", "fp4", 20000), ("GB10", "fp4", 1000), ("Thor", "fp4", 2070)],
)  # fmt: skip
def test_no_peak_is_the_sparse_one_of_the_data_sheet(devices, name, dtype, sparse) -> None:
    assert named(devices, name).peak_tflops[dtype] <= 0.76 * sparse  # fp4 of Blackwell Ultra is 3/4, others 1/2


def test_limits_agree_with_themselves(devices) -> None:
    for limits in devices.limits.values():
        assert limits.threads == 32 * limits.warps
        assert limits.shared_bytes_per_block + limits.shared_bytes_reserved == limits.shared_bytes
    assert {key for key, limits in devices.limits.items() if limits.tensor_memory_columns} == {"10.0", "10.3", "11.0"}


def test_every_target_has_limits_and_a_device(devices) -> None:
    for target in TARGETS.values():
        capability = "{}.{}".format(*target.capability)
        assert (capability in devices.limits) == bool(devices.of_capability(capability)) == target.published


@pytest.mark.parametrize(
    ("name", "device", "capability", "memory"),
    [
        ("gb200", "GB200", "10.0", 8000),
        ("gb300", "GB300", "10.3", 8000),
        ("h100_pcie", "H100 PCIe", "9.0", 2000),
        ("gh200", "GH200", "9.0", 4000),
        ("h20", "H20", "9.0", 4000),
        ("rtx_pro_6000", "RTX PRO 6000", "12.0", 1792),
        ("gb10", "GB10", "12.1", 273),
        ("thor", "Thor", "11.0", 273),
    ],
)
def test_a_pretended_card_is_found_with_its_own_figures(devices, machine, name, device, capability, memory) -> None:
    gpu = machine(name).device
    result = devices.at_hand(gpu)
    assert (result.name, result.compute_capability, result.memory_gb_per_s) == (device, capability, memory)
    assert "{}.{}".format(*gpu.compute_capability) == capability
    assert result.sms in (None, gpu.multiprocessors)


def test_a_mig_slice_has_its_share_and_not_the_cards_peaks(devices, machine) -> None:
    """1g.10gb of an H100: 16 of 132 SMs and one eighth of the memory."""
    whole, part = named(devices, "H100 SXM"), devices.at_hand(machine("h100_mig").device)
    assert part.name == "H100 SXM MIG 1g.10gb" and part.sms == 16 and part.l2_mb == 50 / 8
    assert part.peak_tflops["bf16"] == pytest.approx(whole.peak_tflops["bf16"] * 16 / 132)
    assert part.peak_tflops["fp4"] is None
    assert part.memory_gb_per_s == pytest.approx(whole.memory_gb_per_s / 8)


def test_a_slice_of_unknown_sms_has_no_peaks(devices, machine) -> None:
    gpu = dataclasses.replace(machine("h100_mig").device, multiprocessor_share=None)
    assert set(devices.at_hand(gpu).peak_tflops.values()) == {None}


def test_no_card_and_an_unlisted_one_have_no_figures(devices, machine) -> None:
    assert devices.at_hand(None) is None and devices.at_hand(machine("unknown").device) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("devices", "B200", "peak_tflops", "bf16", 4500), r"devices/B200/peak_tflops: fp8 is 1\.0 times bf16"),
        (("devices", "H200", "peak_tflops", "bf16", -1), r"devices/H200/peak_tflops/bf16"),
        (("devices", "H200", "sources", "sms", "hearsay"), r"devices/H200/sources/sms: 'hearsay' is not under sources"),
        (("devices", "H200", "compute_capability", "9.9"), r"'9\.9' is not under compute_capabilities \(8\.0, 9\.0"),
        (("devices", "H200", "match", ["NVIDIA (H200"]), r"devices/H200/match: 'NVIDIA \(H200' is no regular"),
        (("devices", "H200", "bandwidth", 4800), r"devices/H200: unknown key 'bandwidth'; allowed: match, "),
        (("compute_capabilities", "9.0", "warps", 0), r"compute_capabilities/9\.0/warps: it is 0; it must be 1 or"),
        (("sources", {}), r"is not under sources"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(tmp_path, change, message) -> None:
    data = yaml.safe_load(PATH.read_text())
    *path, key, value = change
    place = data
    for step in path:
        place = place[step]
    place[key] = value
    (tmp_path / "devices.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    with pytest.raises(DeviceError) as error:
        read_devices(tmp_path / "devices.yaml")
    text = str(error.value)
    assert text.startswith(str(tmp_path / "devices.yaml")) and "\n" not in text
    assert re.search(message, text), text


def test_a_missing_figure_is_named(tmp_path) -> None:
    data = yaml.safe_load(PATH.read_text())
    del data["devices"]["H200"]["memory_gb_per_s"]
    (tmp_path / "devices.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(DeviceError, match="devices/H200: key 'memory_gb_per_s' is missing"):
        read_devices(tmp_path / "devices.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("devices: {H200: [", "devices.yaml:1: expected the node content"),
        ("devices: {H200: {}, H200: {}}", "devices.yaml:1: the key 'H200' is there twice"),
        ("", "devices.yaml"),
        (None, "devices.yaml: No such file"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line(tmp_path, text, message) -> None:
    path = tmp_path / "devices.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DeviceError, match=message) as error:
        read_devices(path)
    assert "\n" not in str(error.value)
