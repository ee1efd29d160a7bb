"""The device files of ptxsim's clock.

Complete, with a source for each value, and clear about what is wrong.
"""

import dataclasses
import re

import pytest

from ptxsim.timing import DeviceError, DeviceModel
from ptxsim.timing.device import DEVICES, DeviceConstants

NAMES = sorted(path.stem for path in DEVICES.glob("*.yaml"))


@pytest.mark.parametrize("name", NAMES)
def test_each_device_file_is_complete_and_says_where_its_values_are_from(name) -> None:
    gpu = DeviceModel.load(name)
    assert gpu.constants.sm_count > 100
    for parameter, value in gpu.parameters.items():
        assert value.unit and len(value.origin) > 3, parameter
        assert getattr(gpu.constants, parameter) == value.value


@pytest.mark.parametrize("name", NAMES)
def test_what_is_called_published_names_an_address_where_it_can_be_read(name) -> None:
    for parameter, value in DeviceModel.load(name).parameters.items():
        assert value.source != "published" or re.search(r"https://\S+\.\S+/\S+", value.origin), parameter
        assert value.source != "measured" or name != "b200", f"{parameter}: nobody has measured this GPU"


def test_the_clock_reads_every_parameter() -> None:
    # One that nothing reads would count among the assumed ones, by which a prediction's band is widened.
    sources = [path.read_text() for path in (DEVICES.parent / "timing").glob("*.py")]
    unread = [
        f.name for f in dataclasses.fields(DeviceConstants) if not any(f".{f.name}" in source for source in sources)
    ]
    assert not unread


def test_the_three_cards_are_there() -> None:
    assert NAMES == ["b200", "h100", "h200"]


def changed_file(tmp_path, pattern: str, replacement: str):
    text, count = re.subn(pattern, replacement, (DEVICES / "h200.yaml").read_text(), count=1)
    assert count == 1
    path = tmp_path / "card.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (r"  fma_latency:", "  fma_latncy:", r"unknown parameter 'fma_latncy' \(did you mean 'fma_latency'\?\)"),
        (r"  fma_latency:\n(    .*\n){4}", "", "the parameter 'fma_latency' is missing"),
        (r"source: published", "source: hearsay", "is 'hearsay': one of measured, published, assumed"),
        (r"value: 132", "value: many", "the value of 'sm_count' is not a number: 'many'"),
        (r"    unit: SMs\n", "", "the parameter 'sm_count' needs exactly from, source, unit, value"),
    ],
)
def test_a_wrong_parameter_is_one_clear_line(tmp_path, pattern, replacement, message) -> None:
    with pytest.raises(DeviceError, match=message) as caught:
        DeviceModel.load(changed_file(tmp_path, pattern, replacement))
    assert "\n" not in str(caught.value)


def test_an_unknown_device_names_those_that_there_are() -> None:
    with pytest.raises(DeviceError, match="no device 'h300': one of b200, h100, h200"):
        DeviceModel.load("h300")


def test_a_changed_value_leaves_the_others_as_they_are() -> None:
    gpu = DeviceModel.load("h200")
    other = gpu.changed(l2_latency=1000)
    assert (other.constants.l2_latency, other.parameters["l2_latency"].value) == (1000, 1000)
    assert other.constants.fma_latency == gpu.constants.fma_latency
    assert gpu.constants.l2_latency != 1000
