"""config/devices.yaml: its figures, its names, and what its reader refuses."""

import re

import pytest
import yaml

from cutesnake.places import ROOT
from cutesnake.plan.arch import TARGET_CAPABILITY
from cutesnake.plan.devices import DeviceError, read_devices

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
        ("NVIDIA H200 NVL", None),  # slower: must not pass for the SXM card
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", None),
        ("NVIDIA R200", None),
    ],
)
def test_a_card_is_known_by_the_drivers_name(devices, nvml_name, name) -> None:
    found = devices.find(nvml_name)
    assert (found and found.name) == name


def test_ridges_of_mla_decode(devices) -> None:
    """The two that decide what bounds MLA decode (242 FLOP/B): 206 on an H200, 281 on a B200."""
    ridge = {d.name: round(1e3 * d.peak_tflops["bf16"] / d.memory_gb_per_s) for d in devices.devices}
    assert (ridge["H200"], ridge["B200"]) == (206, 281)


@pytest.mark.parametrize(
    ("name", "dtype", "sparse"),
    [("H200", "bf16", 1979), ("H200", "fp8", 3958), ("B200", "bf16", 4500), ("B200", "fp4", 18000),
     ("B300", "fp8", 9000), ("RTX 5090", "fp8", 838), ("A100 SXM 80GB", "bf16", 624)],
)  # fmt: skip
def test_no_peak_is_the_sparse_one_of_the_data_sheet(devices, name, dtype, sparse) -> None:
    assert named(devices, name).peak_tflops[dtype] <= 0.76 * sparse  # fp4 of Blackwell Ultra is 3/4, others 1/2


def test_limits_agree_with_themselves(devices) -> None:
    for limits in devices.limits.values():
        assert limits.threads == 32 * limits.warps
        assert limits.shared_bytes_per_block + limits.shared_bytes_reserved == limits.shared_bytes
    assert {key for key, limits in devices.limits.items() if limits.tensor_memory_columns} == {"10.0", "10.3"}


def test_every_target_has_limits_and_a_device(devices) -> None:
    for major, minor in TARGET_CAPABILITY.values():
        assert f"{major}.{minor}" in devices.limits
        assert devices.of_capability(f"{major}.{minor}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("devices", "B200", "peak_tflops", "bf16", 4500), r"devices/B200/peak_tflops: fp8 is 1\.0 times bf16"),
        (("devices", "H200", "peak_tflops", "bf16", -1), r"devices/H200/peak_tflops/bf16"),
        (("devices", "H200", "sources", "sms", "hearsay"), r"devices/H200/sources/sms: 'hearsay' is not under sources"),
        (("devices", "H200", "compute_capability", "9.9"), r"'9\.9' is not under compute_capabilities \(8\.0, 9\.0"),
        (("devices", "H200", "match", ["NVIDIA (H200"]), r"devices/H200/match: 'NVIDIA \(H200' is no regular"),
        (("devices", "H200", "bandwidth", 4800), r"devices/H200: .*'bandwidth' was unexpected"),
        (("compute_capabilities", "9.0", "warps", 0), r"compute_capabilities/9\.0/warps: 0 is less than"),
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
    with pytest.raises(DeviceError, match="devices/H200: 'memory_gb_per_s' is a required property"):
        read_devices(tmp_path / "devices.yaml")


def test_not_yaml_and_no_file_are_one_line(tmp_path) -> None:
    (tmp_path / "devices.yaml").write_text("devices: {H200: [")
    for path, message in ((tmp_path / "devices.yaml", "not YAML"), (tmp_path / "none.yaml", "cannot be read")):
        with pytest.raises(DeviceError, match=message) as error:
            read_devices(path)
        assert "\n" not in str(error.value)
