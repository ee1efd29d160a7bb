"""Census of kernels in wheels: all calls run, and findings are known."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.by_hand]  # it downloads wheels; up to ten minutes a case on two cores
ROOT = Path(__file__).parents[2]
FILES = dict.fromkeys(("flashinfer", "sglang"), "census_serving.py")  # else census_calls.py
WHEELS = """
flash-attn-4==4.0.0b36 --hash=sha256:b6f0e2a264334cb1b59289ddd309c7c76d3a8d184268316b43403e51ba8795d2
nvidia-cutlass-operators==0.3.0 --hash=sha256:c2b5f466d60409ef18806c83ffe4b82293e2ca4fd1e7466fb43d61382b347977
quack-kernels==0.6.5 --hash=sha256:df1ddd31366c82eb9692fe087c671209189dcbde53c909c81a865d4ee66b158d
flashinfer-python==0.7.2.post1 --hash=sha256:bfdc18b9e1e4d8d0730fe4343dc0e284cd0c160086de80f99888bc4867922d49
sglang==0.5.23 --hash=sha256:00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937
einops==0.8.2 --hash=sha256:54058201ac7087911181bfec4af6091bb59380360f069276601256a76af08193
networkx==3.6.1 --hash=sha256:d47fbf302e7d9cbbb9e2555a0d267983d2aa476bac30e90dfbe5669bd57f3762
triton==3.9.0 --hash=sha256:1622118a038b0c6e16fa4a0305da62c8b3c15904ee1cc4d4e65846a25969e41e
"""
# Target, part of the tests' names, calls that run
CASES = [("sm_90a", "flash", 18), ("sm_90a", "quack", 16), ("sm_90a", "operator", 4)]
CASES += [("sm_100a", "flash", 20), ("sm_100a", "quack", 16), ("sm_100a", "operator", 18)]
CASES += [("sm_90a", "flashinfer", 19), ("sm_90a", "sglang", 11)]
CASES += [("sm_100a", "flashinfer", 58), ("sm_100a", "sglang", 17)]
# Beginnings of tests -> kinds of findings: docs/ptxsim/validation.md
KNOWN = {
    "test_flash_attention[{'num_splits'": {"uninitialised"},
    "test_flash_attention_backward": {"race", "exit"},
    "test_flash_attention_of_mla": {"barrier"},
    "test_quack_rotary": {"uninitialised"},
    "test_nvidias_operator[cutedsl.Tgv": {"race", "out-of-bounds"},
    "test_nvidias_operator[cutedsl.ContiguousOffset2D3D": {"race"},
    "test_flashinfer_rmsnorm": {"uninitialised"},
    "test_flashinfer_gemma_rmsnorm": {"uninitialised"},
    "test_flashinfer_add_rmsnorm": {"uninitialised"},
    "test_flashinfer_gdn_prefill": {"race", "out-of-bounds"},
    "test_flashinfer_fp8_paged": {"race", "out-of-bounds", "exit"},
    "test_flashinfer_fp4_paged": {"race", "exit", "uninitialised"},
    "test_flashinfer_kda_prefill": {"race"},
    "test_flashinfer_decode": {"barrier", "uninitialised"},
    "test_flashinfer_moe_of_sm90": {"race"},
    "test_sglang_rmsnorm_rope": {"uninitialised"},
    "test_sglang_projection": {"uninitialised"},
    "test_sglang_gdn_prefill": {"race", "out-of-bounds"},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    wanted = folder.with_name("wheels.txt")
    wanted.write_text(WHEELS)
    words = ["install", "--quiet", "--no-deps", "--require-hashes", "--target", str(folder), "-r", str(wanted)]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return folder


@pytest.mark.parametrize(("target", "names", "calls"), CASES)
def test_every_call_runs_and_has_known_findings_only(site, tmp_path, target, names, calls) -> None:
    env = os.environ | {"PTXSIM": "1", "CUTE_DSL_ARCH": target, "SITE": str(site)}
    env["FLASHINFER_WORKSPACE_BASE"] = str(tmp_path)
    env["PYTHONPATH"] = os.pathsep.join((str(site), str(ROOT)))
    words = ["-p", "ptxsim.pytest_plugin", "-q", "-p", "no:cacheprovider", "--junitxml=out.xml"]
    words += ["-c", os.devnull, "-k", names]
    calls_of = Path(__file__).with_name(FILES.get(names, "census_calls.py"))
    subprocess.run([sys.executable, "-m", "pytest", *words, str(calls_of)], cwd=tmp_path, env=env, check=False)
    ran = 0
    for case in ET.parse(tmp_path / "out.xml").iter("testcase"):
        text = "".join(failure.text or "" for failure in case.iter("failure"))
        kinds = set(re.findall(r"^([a-z-]+): ", text, re.M))
        known = next((kinds for begin, kinds in KNOWN.items() if case.attrib["name"].startswith(begin)), set())
        assert kinds <= known and bool(kinds) == bool(text), f"{case.attrib['name']}: {text[:2000]}"
        ran += case.find("skipped") is None
    assert ran >= calls
