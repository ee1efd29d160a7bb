"""The configuration.

What is right passes, what is wrong is named with what would be right.
"""

import copy
import dataclasses
import json
from typing import get_args

import pytest
import yaml

from cutesnake.model import catalog, inputs
from cutesnake.model.catalog import load_operator, make_workload
from cutesnake.model.paths import ROOT, SCHEMAS
from cutesnake.model.targets import LOCAL_TARGET, TARGETS
from cutesnake.planning import strict_yaml
from cutesnake.planning.config import ConfigError, check, lay_over_file, read_again
from cutesnake.planning.sweep import is_named

DEFAULT = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
SMALL = {
    "targets": ["sm_90a"],
    "stages": ["inspect", "timing"],
    "operators": ["elementwise_add"],
    "sweeps": {
        "elementwise_add": {
            "kernels": ["cute"],
            "dtypes": ["fp32"],
            "workloads": [{"rows": [1, 2], "columns": 8}],
            "profile": [],
        }
    },
    "correctness": {"seeds": [0]},
    "timing": {"max_seconds": 1, "max_noise_percent": 0.5},
}
ADD = "sweeps/elementwise_add"


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


def ids(config: dict, operator: str = "elementwise_add") -> list[str]:
    return [workload.id for workload in check(config).sweeps[operator].workloads()]


def test_the_default_configuration_is_right() -> None:
    check(DEFAULT)


def test_the_default_sweep_is_the_promised_one() -> None:
    sweep = check(DEFAULT).sweeps["mla_decode"]
    points = {(w.batch, w.kv_length) for w in sweep.workloads()}
    grid = {(b, s) for b in (1, 4, 16, 32, 64, 128) for s in (1024, 4096, 8192, 16384)}
    assert points >= grid | {(1, 65536)}
    assert {w.dtype for w in sweep.workloads()} == {"bf16", "fp16", "fp8"}
    assert sweep.dtypes_for("sm_90a") == ["bf16"]  # what FlashMLA's published times are in


def test_an_entry_of_a_simulated_list_may_have_its_own_distributions_and_schedules() -> None:
    own: dict = {"distributions": ["large"], "schedules": ["eager"]}
    entries = [{"batch": [1, 2], "kv_length": 64}, {"batch": 2, "kv_length": [64, 65], **own}]
    short = {"distributions": ["randn"], "workloads": entries}
    config = {**DEFAULT, "sweeps": {"mla_decode": {"dtypes": ["bf16"], "simulation": {"short": short}}}}
    sweep = check(config).sweeps["mla_decode"]
    drawn = {w.id: sweep.simulated_distributions("short", w) for w in sweep.simulated("short")}
    assert drawn == {"b1_q1_s64_bf16": ["randn"], "b2_q1_s64_bf16": ["randn", "large"], "b2_q1_s65_bf16": ["large"]}
    orders = [sweep.simulated_schedules("short", w, ["random"]) for w in sweep.simulated("short")]
    assert orders == [["random"], ["random", "eager"], ["eager"]]
    for key, names in own.items():
        for wrong, message in (([f"{names[0]}e"], f"'{names[0]}e' is unknown; did you mean"), (names[0], "be a list")):
            entries[1].update(own | {key: wrong})
            with pytest.raises(ConfigError, match=rf"short.workloads\[1\].{key}.*{message}"):
                check(config)


def test_types_know_every_target() -> None:
    assert set(get_args(inputs.Asked)) == {*TARGETS, LOCAL_TARGET} and set(get_args(inputs.Target)) == set(TARGETS)
    # A GPU of any published one has something to do.
    published = {name for name, target in TARGETS.items() if target.published}
    assert set(check(DEFAULT).sweeps["mla_decode"].dtypes) == published


def test_every_key_is_explained() -> None:
    text = (ROOT / "config" / "README.md").read_text()

    def keys(schema: dict):
        for name, part in schema.get("properties", {}).items():
            yield name
            yield from keys(part)
        if isinstance(schema.get("additionalProperties"), dict):
            yield from keys(schema["additionalProperties"])
        for part in schema.get("$defs", {}).values():
            yield from keys(part)

    for name in ("config", "sweep"):
        for key in keys(json.loads((SCHEMAS / f"{name}.schema.json").read_text())):
            assert f"`{key}`" in text, f"config/README.md does not explain {key}"


@pytest.mark.parametrize("name", DEFAULT["operators"])
def test_every_field_of_a_workload_is_explained_with_its_default(name) -> None:
    operator = load_operator(name)
    lines = (ROOT / "config" / "README.md").read_text().splitlines()
    (row,) = (line for line in lines if line.startswith(f"| `{name}` |"))
    for field in dataclasses.fields(operator.Workload):
        if field.name != "dtype":
            default = "" if field.default is dataclasses.MISSING else f" {yaml.safe_dump(field.default).split()[0]}"
            assert f"`{field.name}`{default}" in row
    assert all(dtype in row for dtype in operator.DTYPES)


@pytest.mark.fault("Configuration", "a value of the wrong type or out of range", "one line")
@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("targts", ["sm_90a"], ["unknown key 'targts'", "did you mean 'targets'?", "allowed: targets, stages"]),
        ("timing/max_second", 1, ["timing", "unknown key 'max_second'", "did you mean 'max_seconds'?"]),
        ("targets/0", "sm_90", ["targets.0 is 'sm_90'", "did you mean 'sm_90a'?", "sm_100a"]),
        ("stages/0", "time", ["stages.0 is 'time'", "did you mean 'timing'?"]),
        ("timing", None, ["key 'timing' is missing"]),
        ("timing/max_seconds", -1, ["timing.max_seconds is -1; it must be more than 0"]),
        ("timing/max_seconds", float("nan"), ["timing.max_seconds is nan; it must be a finite number"]),
        ("timing/max_noise_percent", float("inf"), ["max_noise_percent is inf; it must be a finite number"]),
        ("timing/max_seconds", True, ["timing.max_seconds is True; it must be a finite number"]),
        ("correctness/seeds", [2**70], ["correctness.seeds.0", "it must be 4294967295 or less"]),
        ("correctness/seeds", [1.0], ["correctness.seeds.0 is 1.0; it must be a whole number"]),
        ("correctness/seeds", [], ["correctness.seeds is []; it must be a list with at least 1 entry"]),
        ("compile", {"max_seconds": 0}, ["compile.max_seconds is 0; it must be more than 0"]),
        ("cases_per_job", 0, ["cases_per_job is 0; it must be a whole number (1 or more) or auto"]),
        ("timing/max_seconds", "2", ["timing.max_seconds is '2'; it must be a finite number"]),
        ("operators/0", "elementwise", ["'elementwise'", "did you mean 'elementwise_add'?"]),
        ("sweeps/mla_decod", {}, ["sweeps: unknown operator 'mla_decod'", "did you mean 'mla_decode'?"]),
        (f"{ADD}/kernel", ["cute"], ["sweeps.elementwise_add", "unknown key 'kernel'", "did you mean 'kernels'?"]),
        (f"{ADD}/kernels/0", "cut", ["unknown kernel 'cut'", "did you mean 'cute'?"]),
        (f"{ADD}/dtypes/0", "bf32", ["unknown dtype 'bf32'", "did you mean 'fp32'?"]),
        (f"{ADD}/workloads/0/row", 3, ["workloads[0]: unknown key 'row'", "did you mean 'rows'?"]),
        (f"{ADD}/workloads/0/rows", 0, ["workloads[0]: rows is 0", "whole number from 1"]),
        (f"{ADD}/workloads/0/rows", "3", ["workloads[0]: rows is '3'; it must be a whole number"]),
        (f"{ADD}/workloads/0/rows", [], ["workloads.0.rows is []; it must be a list with at least 1 entry"]),
        (f"{ADD}/workloads/0/rows", [16, 1.5], ["workloads.0.rows.1 is 1.5; it must be a whole number or a text"]),
        (f"{ADD}/workloads/0/rows", 10**12, ["workloads[0]: m1000000000000_n8_fp32", "TiB; no GPU holds that"]),
        (
            f"{ADD}/workloads/0",
            {"rows": [*range(10**5)], "columns": [*range(10**5)]},
            ["10,000,000,000", "most"],
        ),
        (f"{ADD}/dtypes", [], ["dtypes is []; it must be a list with at least 1 entry"]),
        (f"{ADD}/dtypes", ["fp32", "fp32"], ["dtypes is ['fp32', 'fp32']; it must be a list that has every entry"]),
        (f"{ADD}/dtypes", "fp32", ["dtypes is 'fp32'; it must be a list or a mapping of keys to values"]),
        (f"{ADD}/workloads/0/rows", True, ["workloads[0]: rows is True; it must be a whole number"]),
        (f"{ADD}/workloads/0/rows", 1.5, ["workloads.0.rows is 1.5; it must be"]),
        (f"{ADD}/workloads/0/dtype", "fp32", ["dtype belongs in `dtypes`"]),
        (f"{ADD}/workloads/0", {"rows": 3}, ["workloads[0]: columns is missing; allowed: rows, columns"]),
        (f"{ADD}/distributions", ["rand"], ["'rand' is unknown", "did you mean 'randn'?"]),
        (f"{ADD}/profile", ["m1_n9"], ["'m1_n9' is no workload of the sweep", "m1_n8_fp32"]),
        (
            f"{ADD}/kernels/0",
            "operator",
            ["elementwise_add/operator.py sets no DSL, and so is no kernel; one of"],
        ),
        ("kernel_paths", ["/no/such/folder"], ["kernel_paths: /no/such/folder is no folder"]),
    ],
)
def test_an_error_names_key_value_and_what_is_allowed(path, value, message) -> None:
    with pytest.raises(ConfigError) as caught:
        check(changed(path, value))
    assert "\n" not in str(caught.value)
    for word in message:
        assert word in str(caught.value)


def test_a_users_file_that_is_no_kernel_is_named_where_it_lies(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(catalog.PATHS, "")
    (tmp_path / "elementwise_add").mkdir()
    (tmp_path / "elementwise_add" / "mine.py").write_text("SOURCE = 'ours'\n")
    config = changed("kernel_paths", [str(tmp_path)])
    config["sweeps"] = {"elementwise_add": {"kernels": ["mine"]}}
    with pytest.raises(ConfigError) as caught:
        check(config)
    assert f"{tmp_path}/elementwise_add/mine.py sets no DSL, and so is no kernel" in str(caught.value)


def test_a_users_folder_of_kernels_has_the_name_of_an_operator(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv(catalog.PATHS, "")
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers" / "common.py").write_text("WIDTH = 4\n")
    check(changed("kernel_paths", [str(tmp_path)]))
    (tmp_path / "elementwise_ad").mkdir()
    (tmp_path / "elementwise_ad" / "mine.py").write_text("DSL = 'cutile'\n")
    with pytest.raises(ConfigError) as caught:
        check(changed("kernel_paths", [str(tmp_path)]))
    message = str(caught.value)
    assert f"kernel_paths: {tmp_path}/elementwise_ad holds a kernel" in message and "mean 'elementwise_add'?" in message


def test_an_override_replaces_single_keys_of_the_sweep() -> None:
    config = {**DEFAULT, "sweeps": {"elementwise_add": {"dtypes": ["bf16"]}}}
    own, default = (check(c).sweeps["elementwise_add"] for c in (config, DEFAULT))
    assert own.dtypes == ["bf16"] and own.kernels == default.kernels
    assert own.workload_entries == default.workload_entries


def test_workloads_are_the_cross_product_each_once() -> None:
    config = changed(f"{ADD}/workloads", [{"rows": [1, 2], "columns": [8, 9]}, {"rows": 1, "columns": 8}])
    assert ids(config) == ["m1_n8_fp32", "m1_n9_fp32", "m2_n8_fp32", "m2_n9_fp32"]


def test_a_workload_is_named_with_or_without_its_dtype() -> None:
    workload = check(SMALL).sweeps["elementwise_add"].workloads()[0]
    assert is_named(workload, ["m1_n8"]) and is_named(workload, ["m1_n8_fp32"])
    assert is_named(workload, []) and not is_named(workload, ["m2_n8"])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("causal", "false", "causal is 'false'; it must be true or false"),
        ("paged", "yes please", "paged is 'yes please'; it must be true or false"),
        ("paged", 2, "paged is 2; it must be true or false"),
        ("batch", True, "batch is True; it must be a whole number"),
        ("lengths", 3, "lengths is 3; it must be a text"),
    ],
)
def test_fields_of_a_workload_have_their_types_in_a_sweep_and_in_a_case(field, value, message) -> None:
    entry = {"batch": 1, "kv_length": 1024, field: value}
    with pytest.raises(ConfigError, match=message):
        check({**DEFAULT, "sweeps": {"mla_decode": {"workloads": [entry], "profile": []}}})
    with pytest.raises(TypeError, match=message):
        make_workload("mla_decode", {**entry, "dtype": "bf16"})


@pytest.mark.fault("Configuration", "a duplicate key, tabs, an unknown alias, no YAML", "one line with file and line")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("targets: [sm_90a]\ntargets: [sm_100a]\n", "mine.yaml:2: the key 'targets' is there twice, first in line 1"),
        (
            "sweeps:\n  mla_decode:\n    profile: []\n    profile: [a]\n",
            "mine.yaml:4: the key 'profile' is there twice",
        ),
        ("timing:\n\tmax_seconds: 1\n", "mine.yaml:2: .*indent with spaces, not with tabs"),
        ("timing: *limits\n", "mine.yaml:1: found undefined alias 'limits'"),
        ("a: [1\nb: 2\n", "mine.yaml:2: "),
        ("a: 1\n---\nb: 2\n", "mine.yaml:2: expected a single document in the stream, but found another document"),
        ("a:\n  b: 010\n", "mine.yaml:2: 010 is 8 in YAML, as an octal number; write 8, or 10$"),
        ("a: 1:30\n", "mine.yaml:1: 1:30 is 90 in YAML, to the base of 60; write 90, or '1:30' in quotes$"),
    ],
)
def test_a_configuration_file_is_read_strictly(tmp_path, text, message) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        read_again({}, [path], [])
    assert "\n" not in str(caught.value)


def test_an_empty_mapping_in_place_of_a_list_is_refused(tmp_path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("stages: {}\n")
    config = copy.deepcopy(DEFAULT)  # what Snakemake makes of it: `{}` merged into the list changes nothing
    read_again(config, [path], [])
    with pytest.raises(ConfigError, match=r"stages is \{\}; it must be a list"):
        check(config)


def test_more_workloads_than_can_be_planned_are_refused_before_they_are_made(tmp_path) -> None:
    config = copy.deepcopy(DEFAULT)
    many = {"rows": list(range(1, 1002)), "columns": list(range(1, 1001))}
    config["sweeps"] = {"elementwise_add": {"workloads": [many]}}
    config["operators"] = ["elementwise_add"]
    with pytest.raises(ConfigError, match=r"make [\d,]+ workloads; 1,000,000 at most"):
        check(config)


def test_a_configuration_file_is_utf8(tmp_path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"# one\n# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"mine.yaml:2: this is not UTF-8"):
        read_again({}, [path], [])
    with pytest.raises(ConfigError, match=r"nowhere.yaml: No such file"):
        read_again({}, [tmp_path / "nowhere.yaml"], [])


def test_other_numbers_are_what_they_look_like(tmp_path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("[0, 00, -7, 4_096, 0x10, 0b11, 1.5, '010']\n")
    assert strict_yaml.read(path) == [0, 0, -7, 4096, 16, 3, 1.5, "010"]


def test_merge_keys_are_no_duplicates(tmp_path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n")
    assert strict_yaml.read(path)["b"] == {"x": 3, "y": 2}


@pytest.mark.fault("Configuration", "any value in `--config`, nested too", "read with its YAML type")
def test_every_value_can_be_set_from_the_command_line() -> None:
    config = copy.deepcopy(DEFAULT)
    config["timing"]["max_seconds"] = "5"  # how Snakemake understands what is inside of a mapping
    arguments = ["timing={max_seconds: 5}", "operators=[elementwise_add]", "simulation={extent: none}"]
    arguments += ["sweeps={elementwise_add: {kernels: [cute], profile: []}}", "correctness={seeds: [3]}"]
    read_again(config, [], [*arguments, "compile={max_seconds: 1.5}"])
    experiment = check(config)
    assert experiment.timing == {"max_seconds": 5, "max_noise_percent": DEFAULT["timing"]["max_noise_percent"]}
    assert list(experiment.sweeps) == ["elementwise_add"] and experiment.sweeps["elementwise_add"].kernels == ["cute"]
    assert experiment.seeds == [3] and experiment.extent == "none" and config["compile"]["max_seconds"] == 1.5


def test_a_wrong_value_on_the_command_line_is_one_line() -> None:
    with pytest.raises(ConfigError, match="--config timing:1: ") as caught:
        read_again(copy.deepcopy(DEFAULT), [], ["timing={max_seconds: 5"])
    assert "\n" not in str(caught.value)


def test_a_mapping_in_place_of_a_list_is_refused() -> None:
    """Snakemake's own merge leaves the list as it was, without a word."""
    config: dict = {"stages": {}}
    lay_over_file(config, ROOT / "config/config.yaml")
    with pytest.raises(ConfigError, match=r"stages is \{\}; it must be a list"):
        check(config)


def test_what_the_command_line_says_lies_over_the_file() -> None:
    config: dict = {"operators": ["elementwise_add"], "timing": {"max_seconds": 7}}
    lay_over_file(config, ROOT / "config/config.yaml")
    assert config == {**DEFAULT, "operators": ["elementwise_add"], "timing": {**DEFAULT["timing"], "max_seconds": 7}}


def test_the_id_of_a_workload_fits_in_a_file_name(monkeypatch) -> None:
    make = catalog.load_operator("elementwise_add").Workload
    monkeypatch.setattr(make, "id", property(lambda self: "x" * 250))
    with pytest.raises(ConfigError, match=r"the id of a Workload is x{20}… with 250 characters; 150 at most") as caught:
        check(changed(f"{ADD}/distributions", ["randn"]))
    assert "\n" not in str(caught.value)
