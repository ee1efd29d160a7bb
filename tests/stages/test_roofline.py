"""The roofline record: bounds and floors from an operator's cost and the devices' peaks."""

import json
import re
import runpy
from types import SimpleNamespace

import pytest

from cutesnake.model import record
from cutesnake.model.paths import ROOT
from cutesnake.planning.config import check
from cutesnake.planning.devices import DeviceError, read_devices
from cutesnake.planning.matrix import make_plan
from cutesnake.planning.strict_yaml import read
from cutesnake.stages.inspect.roofline import roofline
from kernels.mla_decode.operator import Workload

DEVICES = ROOT / "config/devices.yaml"


def rows(tmp_path, operator, workloads):
    roofline(operator, workloads, DEVICES, tmp_path / "roofline.json")
    entry = json.loads((tmp_path / "roofline.json").read_text())
    return {(row["workload"], row["device"]): row for row in entry["rows"]}


def test_mla_decode_is_compute_bound_on_an_h200_and_memory_bound_on_a_b200(tmp_path) -> None:
    result = rows(tmp_path, "mla_decode", [{"batch": 128, "kv_length": 8192, "dtype": "bf16"}])
    h200, b200 = result["b128_q1_s8192_bf16", "H200"], result["b128_q1_s8192_bf16", "B200"]
    assert h200["intensity"] == b200["intensity"] == pytest.approx(238, abs=5)
    assert (h200["bound"], b200["bound"]) == ("compute", "memory")
    assert (h200["target"], b200["target"]) == ("sm_90a", "sm_100a")
    flops = 2 * 128 * 8192 * 128 * (576 + 512)
    size = 2 * 576 * (128 * 8192 + 128 * 128) + 128 * 128 * (512 * 2 + 4)
    assert h200["floor_us"] == pytest.approx(flops / 989.4e12 * 1e6)
    assert b200["floor_us"] == pytest.approx(size / 8e12 * 1e6)


def test_the_floor_lies_below_what_was_measured_on_an_h200(tmp_path) -> None:
    # FlashMLA, B 128, S 4096: 231.4 µs and 631 TFLOP/s. A floor above that would be wrong.
    row = rows(tmp_path, "mla_decode", [Workload(128, 4096)])["b128_q1_s4096_bf16", "H200"]
    assert 0.5 * 231.4 < row["floor_us"] < 231.4


def test_the_ridge_is_where_both_times_meet(tmp_path) -> None:
    for row in rows(
        tmp_path, "mla_decode", [Workload(1, 1024), Workload(128, 65536), Workload(32, 4096, heads=16)]
    ).values():
        above = row["intensity"] > row["ridge"]
        assert above == (row["compute_us"] > row["memory_us"]) == (row["bound"] == "compute")
        assert row["floor_us"] == max(row["compute_us"], row["memory_us"])


def test_a_device_without_the_dtype_says_so(tmp_path) -> None:
    result = rows(tmp_path, "mla_decode", [Workload(32, 4096, "fp8")])
    row = result["b32_q1_s4096_fp8", "A100 SXM 80GB"]
    assert (row["bound"], row["floor_us"], row["peak_tflops"]) == (None, None, None)
    assert row["reason"] == "no fp8 tensor-core rate is listed for A100 SXM 80GB"
    assert row["memory_us"] > 0
    assert all(other["reason"] is None for (_, device), other in result.items() if device != "A100 SXM 80GB")


def test_elementwise_add_is_memory_bound_everywhere(tmp_path) -> None:
    result = rows(tmp_path, "elementwise_add", [{"rows": 4096, "columns": 4096, "dtype": t} for t in ("fp32", "bf16")])
    assert len(result) == 2 * sum(device.reference for device in read_devices(DEVICES).devices)
    assert {row["bound"] for row in result.values()} == {"memory"}
    assert result["m4096_n4096_fp32", "H200"]["floor_us"] == pytest.approx(3 * 4096**2 * 4 / 4.8e12 * 1e6)


def test_a_card_at_hand_or_recorded_has_rows_beside_the_reference_devices(tmp_path, machine) -> None:
    reference = {device for _, device in rows(tmp_path, "mla_decode", [Workload(1, 1024)])}
    assert not {"GB300", "H100 PCIe"} & reference
    local, kept = machine("gb300").device, ["NVIDIA H100 PCIe", "NVIDIA H200", "NVIDIA R200"]
    roofline("mla_decode", [Workload(1, 1024)], DEVICES, tmp_path / "more.json", local, kept)
    result = [row["device"] for row in json.loads((tmp_path / "more.json").read_text())["rows"]]
    assert set(result) == reference | {"GB300", "H100 PCIe"} and len(result) == len(set(result))


def test_a_mig_slice_has_its_share_of_the_card(tmp_path, machine) -> None:
    local = machine("h100_mig").device
    roofline("mla_decode", [Workload(32, 4096)], DEVICES, tmp_path / "mig.json", local)
    row = json.loads((tmp_path / "mig.json").read_text())["rows"][-1]
    assert row["device"] == "H100 SXM MIG 1g.10gb" and row["target"] == "sm_90a"
    assert row["peak_tflops"] == pytest.approx(989.4 * 16 / 132)
    assert row["memory_gb_per_s"] == pytest.approx(3350 / 8)
    assert re.fullmatch(row["match"][0], local.name)


def test_a_workload_asked_for_twice_has_one_row(tmp_path) -> None:
    result = rows(tmp_path, "mla_decode", [Workload(1, 1024), {"batch": 1, "kv_length": 1024}])
    entry = json.loads((tmp_path / "roofline.json").read_text())
    assert len(entry["rows"]) == len(result)


def test_what_is_wrong_leaves_no_record(tmp_path) -> None:
    with pytest.raises(ValueError, match="kv_length is 0"):
        roofline("mla_decode", [{"batch": 1, "kv_length": 0}], DEVICES, tmp_path / "roofline.json")
    with pytest.raises(DeviceError):
        roofline("mla_decode", [Workload(1, 1024)], tmp_path / "none.yaml", tmp_path / "roofline.json")
    assert not (tmp_path / "roofline.json").exists()


def test_the_rules_script_writes_the_plan_and_the_roofline(tmp_path, machine) -> None:
    whole = read(ROOT / "config/config.yaml", "config") | {"operators": ["elementwise_add"]}
    plan = make_plan(check(whole), machine("none")).of("elementwise_add")
    task = "cutesnake.stages.inspect.roofline:plan_and_roofline"
    arguments = {"plan": plan, "recorded": ["NVIDIA H20"], "machine": {}, "devices": str(DEVICES)}
    arguments |= {"output": str(tmp_path / "plan.json"), "rooflines": str(tmp_path / "roofline.json")}
    snakemake = SimpleNamespace(
        params=SimpleNamespace(task=("host", "plan", task), arguments=arguments, made_from=None),
        log=[str(tmp_path / "plan.log")],
    )
    runpy.run_path(str(ROOT / "workflow/scripts/job.py"), {"snakemake": snakemake})
    assert record.read("plan", tmp_path / "plan.json").operator == "elementwise_add"
    assert "H20" in {row.device for row in record.read("roofline", tmp_path / "roofline.json").rows}
