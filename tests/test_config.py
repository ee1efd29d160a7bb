"""The configuration: what is right passes, what is wrong is named with what would be right."""

import copy
import json
from pathlib import Path

import pytest
import yaml

from cutesnake.plan import config as configuration
from cutesnake.plan.config import ConfigError

ROOT = Path(__file__).resolve().parents[1]
DEFAULT = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
SMALL = {
    "targets": ["sm_90a"],
    "stages": ["inspect", "timing"],
    "operators": {
        "elementwise_add": {"kernels": ["cute"], "dtypes": ["fp32"], "workloads": [{"rows": [1, 2], "columns": 8}]}
    },
    "correctness": {"seeds": [0], "distributions": ["randn"]},
    "timing": {"max_seconds": 1, "max_noise_percent": 0.5},
    "profile": {"workloads": []},
}


def changed(path: str, value) -> dict:
    """SMALL with one value replaced; a value of None removes the key."""
    result = copy.deepcopy(SMALL)
    *parents, last = path.split("/")
    place = result
    for key in parents:
        place = place[int(key) if isinstance(place, list) else key]
    last = int(last) if isinstance(place, list) else last
    if value is None:
        del place[last]
    else:
        place[last] = value
    return result


def test_the_default_configuration_is_right() -> None:
    configuration.check(DEFAULT)


def test_the_default_sweep_is_the_promised_one() -> None:
    found = configuration.workloads(DEFAULT, "mla_decode")
    points = {(w.batch, w.kv_length) for w in found}
    grid = {(b, s) for b in (1, 4, 16, 32, 64, 128) for s in (1024, 4096, 8192, 16384)}
    assert points == grid | {(1, 65536)}
    assert {w.dtype for w in found} == {"bf16", "fp16", "fp8"}
    section = DEFAULT["operators"]["mla_decode"]
    assert configuration.dtypes_for(section, "sm_90a") == ["bf16"]  # what FlashMLA's published times are in


def test_every_key_is_explained() -> None:
    text = (ROOT / "config" / "README.md").read_text()

    def keys(schema: dict):
        for name, part in schema.get("properties", {}).items():
            yield name
            yield from keys(part)
        if isinstance(schema.get("additionalProperties"), dict):
            yield from keys(schema["additionalProperties"])

    for key in keys(json.loads(configuration.SCHEMA.read_text())):
        assert f"`{key}`" in text, f"config/README.md does not explain {key}"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("targts", ["sm_90a"], ["unknown key 'targts'", "did you mean 'targets'?", "allowed: targets, stages"]),
        ("timing/max_second", 1, ["timing", "unknown key 'max_second'", "did you mean 'max_seconds'?"]),
        ("targets/0", "sm_90", ["targets.0 is 'sm_90'", "did you mean 'sm_90a'?", "sm_100a"]),
        ("stages/0", "time", ["stages.0 is 'time'", "did you mean 'timing'?"]),
        ("timing", None, ["key 'timing' is missing"]),
        ("timing/max_seconds", -1, ["timing.max_seconds", "-1", "minimum"]),
        ("operators/mla_decod", SMALL["operators"]["elementwise_add"], ["'mla_decod'", "did you mean 'mla_decode'?"]),
        ("operators/elementwise_add/kernels/0", "cut", ["unknown kernel 'cut'", "did you mean 'cute'?"]),
        ("operators/elementwise_add/dtypes/0", "bf32", ["unknown dtype 'bf32'", "did you mean 'fp32'?"]),
        ("operators/elementwise_add/workloads/0/row", 3, ["workloads[0]: unknown key 'row'", "did you mean 'rows'?"]),
        ("operators/elementwise_add/workloads/0/rows", 0, ["workloads[0]: rows is 0", "whole number from 1"]),
        ("operators/elementwise_add/workloads/0/dtype", "fp32", ["dtype belongs in elementwise_add.dtypes"]),
        ("operators/elementwise_add/workloads/0", {"rows": 3}, ["workloads[0]", "columns"]),
        ("correctness/distributions/0", "rand", ["'rand' is unknown", "did you mean 'randn'?"]),
        ("profile/workloads", ["m1_n9"], ["'m1_n9' is no workload of the sweep", "m1_n8_fp32"]),
    ],
)
def test_an_error_names_key_value_and_what_is_allowed(path, value, words) -> None:
    with pytest.raises(ConfigError) as caught:
        configuration.check(changed(path, value))
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_workloads_are_the_cross_product_each_once() -> None:
    config = changed(
        "operators/elementwise_add/workloads", [{"rows": [1, 2], "columns": [8, 9]}, {"rows": 1, "columns": 8}]
    )
    ids = [w.id for w in configuration.workloads(config, "elementwise_add")]
    assert ids == ["m1_n8_fp32", "m1_n9_fp32", "m2_n8_fp32", "m2_n9_fp32"]


def test_a_workload_is_named_with_or_without_its_dtype() -> None:
    workload = configuration.workloads(SMALL, "elementwise_add")[0]
    assert configuration.is_named(workload, ["m1_n8"]) and configuration.is_named(workload, ["m1_n8_fp32"])
    assert configuration.is_named(workload, []) and not configuration.is_named(workload, ["m2_n8"])
