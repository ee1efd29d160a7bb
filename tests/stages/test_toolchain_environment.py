"""Environments of toolchains, and what is gathered of builds."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import subprocess
import zipfile
from base64 import urlsafe_b64encode

import pytest

import sample
from cutesnake.model import kept_builds, record
from cutesnake.planning.toolchains import ToolchainError
from cutesnake.stages.toolchain import builds
from cutesnake.stages.toolchain.builds import compile_with, spills, write_summary
from cutesnake.stages.toolchain.environment import install, python_of

SASS = """
	.section	.text.kernel,"ax",@progbits
.text.kernel:
	//## File "kernels/add/k.py", line 7
        /*0000*/                   STL [R1], R2 ;
        /*0010*/                   LDG.E R2, desc[UR4][R16.64] ;
        /*0020*/              @!P0 LDL.64 R2, [R1] ;
	//## File "kernels/add/k.py", line 9 inlined at "kernels/add/k.py", line 20
        /*0030*/                   LDL R2, [R1] ;
	.section	.text.other,"ax",@progbits
.text.other:
        /*0000*/                   LDL R2, [R1] ;
"""


def test_spill_sites_have_their_source_lines(tmp_path):
    (tmp_path / "kernel.sass").write_text(SASS)
    assert spills(tmp_path, {"kernel.sass": "", "kernel.ptx": ""}) == [
        {"source": "kernels/add/k.py:7", "loads": 1, "stores": 1},
        {"source": "kernels/add/k.py:9", "loads": 1, "stores": 0},
        {"source": "unknown", "loads": 1, "stores": 0},
    ]


def test_the_record_of_the_main_toolchain_is_made_from_recorded_builds(tmp_path):
    evidence, key = sample.evidence(), "blend/cutlass_fp16/sm_100a/fp16"
    entries = {
        "compile": evidence.builds[f"results/compile/{key}/build.json"],
        "inspect": evidence.inspected[f"results/inspect/{key}.json"],
        "correctness/b1_s1024_fp16": evidence.measured[f"results/correctness/{key}/b1_s1024_fp16.json"],
    }
    paths = {name: str(tmp_path / f"{name.partition('/')[0]}.json") for name in entries}
    for name, entry in entries.items():
        record.write(name.partition("/")[0], paths[name], entry)
    kept_builds.write_builds(tmp_path, {key: {name: ["digest", {}] for name in entries}}, {key: paths})
    names = {"compile": "compile", "inspect": "inspect", "predictions": [], "times": []}
    names |= {"checks": ["correctness/b1_s1024_fp16"], "recorded": [str(tmp_path / "blend.jsonl"), key]}
    write_summary("main", "blend", "cutlass_fp16", "cute", "sm_100a", [names], str(tmp_path / "out.json"))
    (made,) = record.read("toolchain", tmp_path / "out.json").builds
    assert [one.symbol for one in made.functions] == ["main_kernel", "combine"] and made.spills == []
    assert [one.workload for one in made.checks] == ["b1_s1024_fp16"] and made.status == "ok"
    built = tmp_path / "built/build.json"  # one that spills is compiled here, while its recorded check stands
    record.write("compile", built, entries["compile"])
    for name in record.read("compile", built).files:
        (built.parent / name).write_text("LDL R0, [R1]")
    names |= {"compile": str(built), "inspect": paths["inspect"]}
    write_summary("main", "blend", "cutlass_fp16", "cute", "sm_100a", [names], str(tmp_path / "out.json"))
    (again,) = record.read("toolchain", tmp_path / "out.json").builds
    assert again.checks == made.checks and again.functions == made.functions


def test_a_check_keeps_the_opcode_that_the_simulator_lacks(tmp_path):
    (entry, *_) = copy.deepcopy(sample.evidence().measured).values()
    for opcode in (None, "frob.f32"):
        entry["metrics"]["checks"][0] |= {"passed": opcode is None, "unknown_opcode": opcode}
        record.write("correctness", tmp_path / "one.json", entry)
        assert builds._check(record.read("correctness", tmp_path / "one.json"))["unknown_opcode"] == opcode


def wheel(folder, name: str, version: str, files: dict[str, str]) -> None:
    """Write a wheel that holds `files`."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    files = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            entry = zipfile.ZipInfo(path)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
            digest = urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            lines.append(f"{path},sha256={digest},{len(text)}\n")
        archive.writestr(f"{info}/RECORD", "".join(lines) + f"{info}/RECORD,,\n")


@pytest.mark.slow
def test_pins_come_first_all_else_from_the_main_environment_and_a_failure_leaves_the_earlier_one(tmp_path, monkeypatch):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels, "nvidia-cuda-nvdisasm", "13.9.9", {"nvidia/cu13/bin/nvdisasm": "#!/bin/sh\n"})
    wheel(wheels, "jinja2", "99.0", {"jinja2/__init__.py": "__version__ = '99.0'\n"})
    for variable, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(wheels)), ("PIP_EXTRA_INDEX_URL", "")):
        monkeypatch.setenv(variable, value)
    pins, output = tmp_path / "own.txt", tmp_path / "results/own/environment.json"
    pins.write_text("jinja2==99.0\nnvidia-cuda-nvdisasm==13.9.9\n")
    install(str(pins), str(output))
    installed = record.read("environment", output)
    assert installed.pins == {"jinja2": "99.0", "nvidia-cuda-nvdisasm": "13.9.9"}

    program = "import jinja2, msgspec, json, cutesnake; print(json.dumps([jinja2.__version__, msgspec.__file__]))"
    done = subprocess.run([python_of(output), "-P", "-c", program], capture_output=True, text=True, check=True)
    version, elsewhere = json.loads(done.stdout)
    assert version == "99.0" and not elsewhere.startswith(str(tmp_path))

    names = {"operator": "no_such", "kernel": "k", "target": "sm_90a", "variant": {"id": "v", "params": {}}}
    files = {"folder": str(tmp_path / "build/a/b/c/d"), "figures": None, "figures_recipe": None, "devices": ""}
    for jobs, fault in (([], None), ([names | files | {"recipe": {}, "upstream": []}], "no_such")):
        with contextlib.nullcontext() if fault is None else pytest.raises(ToolchainError, match=fault) as error:
            compile_with(str(output), "host", "sm_90a", jobs)  # by the environment's Python
    assert "\n" not in str(error.value)

    pins.write_text("jinja2==98.0\nnvidia-cuda-nvdisasm==13.9.9\n")
    with pytest.raises(ToolchainError, match=r"pip could not install it .*jinja2==98.0") as error:
        install(str(pins), str(output))
    assert "\n" not in str(error.value)
    pins.write_text("jinja2==99.0\n")
    with pytest.raises(ToolchainError, match="it needs nvidia-cuda-nvdisasm as well"):
        install(str(pins), str(output))
    assert (
        python_of(output).exists() and [path.name for path in output.parent.iterdir() if "partial" in path.name] == []
    )
