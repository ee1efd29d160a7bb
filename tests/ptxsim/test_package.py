"""ptxsim as a package of its own: installed alone, with its command and its tests.

Used by others as any package is.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib import import_module
from pathlib import Path

import pytest

import ptxsim

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PACKAGE = ROOT / "ptxsim"
PUBLIC = ("ptxsim", "ptxsim.descriptors", "ptxsim.hooks", "ptxsim.museum", "ptxsim.ptx", "ptxsim.timing")
pytestmark = pytest.mark.skipif(not (PACKAGE / "pyproject.toml").exists(), reason="this is not the repository")


def test_numpy_is_all_it_needs() -> None:
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    assert [re.split(r"[<>=]", x)[0] for x in project["dependencies"]] == ["numpy"]
    assert project["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (PACKAGE / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    known = {"numpy", "yaml", "torch", "elftools", "ptxsim", *sys.stdlib_module_names}
    assert "Framework :: Pytest" in project["classifiers"] and "Typing :: Typed" in project["classifiers"]
    # What a user of these already has: pytest loads its plugin, which asks for CuTe DSL; jit.py runs its functions.
    brought = {"pytest_plugin.py": {"pytest"}, "jit.py": {"cutlass", "tvm_ffi"}}
    for path in PACKAGE.rglob("*.py"):
        imported = set(re.findall(r"^\s*(?:import|from) (\w+)", path.read_text(), re.M))
        strange = imported - known - brought.get(path.name, set())
        assert not strange, f"{path}: {strange}"


def test_the_workflow_uses_only_what_the_package_offers() -> None:
    """Every import names a public module and one of its exports."""
    public = {name: import_module(name) for name in PUBLIC}
    result = 0
    for place in ("workflow", "kernels", "benchmarks"):
        for path in (ROOT / place).rglob("*.py"):
            text = path.read_text()
            if "ptxsim" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ptxsim":
                    names = {alias.name for alias in node.names}
                    modules = {name for name in names if f"{node.module}.{name}" in public}
                    assert node.module in public, f"{path}:{node.lineno}: {node.module}"
                    strange = names - modules - set(public[node.module].__all__)
                    assert not strange, f"{path}:{node.lineno}: {strange}"
                    result += len(names)
                elif isinstance(node, ast.Import):
                    within = [x.name for x in node.names if x.name.startswith("ptxsim.")]
                    assert set(within) <= public.keys(), f"{path}:{node.lineno}: {within}"
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    assert not re.fullmatch(r"ptxsim(\.\w+)+", node.value), f"{path}:{node.lineno}: {node.value}"
            if "import ptxsim" in text:
                used = set(re.findall(r"(?<![\w./`])ptxsim\.([A-Za-z]\w*)", text))
                offered = {*ptxsim.__all__, *(name.partition(".")[2] for name in PUBLIC)}
                assert used <= offered, (path, used - offered)
    assert result > 30


@pytest.mark.slow
def test_it_installs_alone_with_its_command_and_its_tests_pass_there(tmp_path) -> None:
    # A virtual environment with numpy, pytest and PyYAML. No torch, no CuTe DSL, nothing of this project.
    venv.create(tmp_path / "env", with_pip=True)
    tools = tmp_path / "env/bin"

    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def ran(*words: object) -> str:
        command = list(map(str, words))
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, cwd=tmp_path, env=alone)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    ran(tools / "pip", "install", "-q", f"{PACKAGE}[test]")
    place = Path(ran(tools / "python", "-c", "import ptxsim; print(ptxsim.__file__)").strip())
    assert (
        tmp_path in place.parents and (place.parent / "host/stub.c").exists() and (place.parent / "py.typed").exists()
    )
    (info,) = place.parents[1].glob("ptxsim-*.dist-info")
    assert "Root-Is-Purelib: true" in (info / "WHEEL").read_text() and list(info.rglob("LICENSE"))
    assert "ptxsim = ptxsim.pytest_plugin" in (info / "entry_points.txt").read_text()
    assert {x.name for x in (PACKAGE / "devices").glob("*.yaml")} == {x.name for x in place.parent.glob("devices/*")}
    assert "exit status" in ran(tools / "ptxsim", "-h")
    shutil.copytree(FOLDER, tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    reported = ran(
        tools / "python", "-m", "pytest", "-q", "-m", "not slow and not gpu", "-c", "/dev/null", tmp_path / "tests"
    )
    assert int(re.search(r"(\d+) passed", reported)[1]) > 400, reported[-500:]
