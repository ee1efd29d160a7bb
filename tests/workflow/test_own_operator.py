"""A user's own operator outside the repository goes through every stage."""

import hashlib
import json
import re
import shlex
import zipfile

import pytest

from cutesnake.model import catalog
from cutesnake.model.paths import ROOT
from own_operator import DEVICE, OPERATOR, PYTORCH, arguments
from project import jobs, replace, snakemake


def test_its_cases_are_planned_for_every_stage_on_a_gpu(fresh, own) -> None:
    planned = jobs(fresh, *arguments(own), machine="h200")
    stages = ("compile", "timing", "nsys", "ncu", "page", "report")
    assert [planned.get(stage) for stage in stages] == [4, 4, 4, 4, None, 1]
    assert (planned["correctness"], planned["simulated"]) == (4, 1)  # on the GPU, and sm_100a by simulation


@pytest.mark.slow
def test_it_goes_through_every_stage_that_needs_no_gpu(fresh, own) -> None:
    done = snakemake(fresh, *arguments(own))
    assert done.returncode == 0, done.stdout + done.stderr
    checked = [json.loads(path.read_text()) for path in (fresh / "results/correctness/double").rglob("*.json")]
    assert {(entry["case"]["target"], entry["status"]) for entry in checked} == {("sm_90a", "ok"), ("sm_100a", "ok")}
    assert set(checked[0]["metrics"]["checks"][0]["outputs"]) == {"y", "total"}
    page = (fresh / "results/mla_report.html").read_text()
    assert "double" in page and str(own) not in page
    assert "a folder outside this repository (kernel_paths)" in page and "<dd>this project</dd>" not in page
    assert jobs(fresh, *arguments(own)) == {}


@pytest.mark.slow
def test_a_kernel_from_a_wheel_that_their_folder_pins_may_import_torch(fresh, own, tmp_path, monkeypatch) -> None:
    (own / "double/mine/device.py").unlink()
    replace(own / "double/mine/__init__.py", 'SOURCE = "ours"', 'SOURCE = "mine"')
    imports = """import sys; from cutesnake.stages.fetch import fetched; sys.path.append(str(fetched(SOURCE).resolve()))
        from tiny import kernel as device"""
    replace(own / "double/mine/__init__.py", "from kernels.double.mine import device", imports)
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny/kernel.py", f"import torch\n{DEVICE}\nassert torch.ones(1) == 1\n")
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    pin = {"version": "1.0", "wheel": wheel.name, "sha256": sha256, "licence": "MIT", "homepage": "https://none"}
    (own / "upstream.yaml").write_text(json.dumps({"mine": {**pin, "files": ["tiny/"]}}))
    monkeypatch.setenv("CUTESNAKE_WHEELS", str(tmp_path))
    done = snakemake(fresh, *arguments(own), "stages=[correctness]", "sweeps={double: {kernels: [mine]}}")
    assert done.returncode == 0, done.stdout + done.stderr
    checked = [json.loads(path.read_text()) for path in (fresh / "results/correctness/double").rglob("*.json")]
    assert {(entry["case"]["kernel"], entry["status"]) for entry in checked} == {("mine", "ok")}


@pytest.mark.slow
def test_a_changed_file_of_it_makes_its_builds_anew(fresh, own) -> None:
    assert snakemake(fresh, *arguments(own)).returncode == 0
    device = own / "double/mine/device.py"
    device.write_text(device.read_text() + "\nCHANGED = 1\n")
    assert jobs(fresh, *arguments(own))["compile"] == 2


def test_another_kernel_of_a_known_operator_is_found(own, monkeypatch) -> None:
    (own / "elementwise_add").mkdir()
    (own / "elementwise_add/mine.py").write_text(PYTORCH)
    monkeypatch.setenv(catalog.PATHS, str(own))
    assert "mine" in catalog.kernel_files("elementwise_add")
    assert catalog.load_kernel("elementwise_add", "mine").DSL == "torch"
    assert catalog.load_kernel("elementwise_add", "cute").DSL == "cute"
    known = ("mine", "cute", "device", "no_such")
    assert [catalog.users_own("elementwise_add", kernel) for kernel in known] == [True, False, False, False]
    assert catalog.users_own("double", "mine")


@pytest.mark.fault(
    "Kernels", "a wrong or missing name, function, DSL or target", "one line that names file and what is allowed"
)
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'DSL: str = "cute"',
            'DSL = "triton"',
            "DSL is 'triton'; it must be one of cute, cutile, torch, cuda, cute_jit",
        ),
        ("def supports(workload)", "def supports(workload", "kernels/double/mine/__init__.py:"),
        ("def bind(build, ", "def bind(", "bind must take (build, workload, inputs, outputs)"),
        ('"sm_90a": ()', '"sm_90": ()', "TARGETS has 'sm_90'; known targets are sm_90a"),
        ('"sm_90a": ()', '"sm_90a": ("warp",)', "TARGETS['sm_90a'] has 'warp'"),
        ('SOURCE = "ours"', 'SOURCE = "ours"\nOUTSIDE = {}', "OUTSIDE is an old name; write UNSUPPORTED"),
        ('SOURCE = "ours"', "import no_such_package", ":5: ModuleNotFoundError: No module named 'no_such_package'"),
        ('SOURCE = "ours"', "1 / 0", ":5: ZeroDivisionError"),
    ],
)
def test_a_broken_contract_is_one_line_with_the_file(own, monkeypatch, old, new, message) -> None:
    replace(own / "double/mine/__init__.py", old, new)
    monkeypatch.setenv(catalog.PATHS, str(own))
    with pytest.raises(catalog.ContractError) as caught:
        catalog.load_kernel("double", "mine")
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("kernels/double/mine/__init__.py") and str(ROOT) not in str(caught.value)


def test_related_distributions_that_an_operator_does_not_have_are_named(own, monkeypatch) -> None:
    (own / "double/operator.py").write_text(OPERATOR + '\nRELATED = ("randn", "ragged")\n')
    monkeypatch.setenv(catalog.PATHS, str(own))
    with pytest.raises(
        catalog.ContractError, match=r"operator\.py: RELATED has 'ragged', .* none of DISTRIBUTIONS: randn"
    ):
        catalog.load_operator("double")


@pytest.mark.fault("Kernels", "an operator's `Workload` is wrong", "one line")
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('f"n{self.size}_{self.dtype}"', '"same"', "the id of a Workload must tell workloads apart; 'same' is that of"),
        (
            'f"n{self.size}_{self.dtype}"',
            'f"n {self.size}/x"',
            "the id of a Workload is 'n 1000/x'; it may hold A-Z",
        ),
        ("return Cost(workload.size", "return Costs(workload.size", ": NameError: name 'Costs' is not defined"),
        ("return Cost(workload.size", "return (workload.size", "is (1000, 4000, 4000); it must be a Cost"),
        ("4 * workload.size, 4 * workload.size", "0, -1", "bytes_written=-1); it must be a Cost"),
        (
            "4 * workload.size, 4 * workload.size",
            "0, 0",
            "double/sweep.yaml.workloads[0]: n1000_fp32 reads and writes no",
        ),
    ],
)
def test_what_is_wrong_with_workloads_of_an_operator_is_one_line(fresh, own, old, new, message) -> None:
    replace(own / "double/operator.py", old, new)
    done = snakemake(fresh, "--dry-run", *arguments(own))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("kernels/double/") and message in done.stderr


@pytest.mark.fault(
    "Kernels",
    "`supports` or `variants` raise, or return the wrong type or one id twice",
    "a row of the plan; other kernels are built",
)
def test_a_broken_kernel_is_a_row_of_the_plan_and_the_others_are_built(fresh, own) -> None:
    (own / "double/mine/__init__.py").write_text("DSL = 'cute'\ndef (\n")
    planned = jobs(fresh, *arguments(own))
    assert planned["compile"] == 2


@pytest.mark.slow
def test_the_kernel_in_the_readme_compiles_and_passes_its_simulated_checks(fresh, tmp_path) -> None:
    text = (ROOT / "README.md").read_text()
    (place,) = re.findall(r"as `~/my_kernels/(\S+\.py)`", text)
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    path = tmp_path / "my_kernels" / place
    path.parent.mkdir(parents=True)
    path.write_text(code)
    (command,) = re.findall(r"^\.venv/bin/snakemake (.*kernel_paths.*)$", text, re.MULTILINE)
    done = snakemake(fresh, *shlex.split(command.replace("~", str(tmp_path))))
    assert done.returncode == 0, done.stdout + done.stderr
    checked = [json.loads(path.read_text()) for path in (fresh / "results/correctness").rglob("mine/**/*.json")]
    assert checked and {entry["status"] for entry in checked} == {"ok"}
