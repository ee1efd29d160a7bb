"""A newcomer's kernels, each wrong in its own way, next to one that is right.

All are rows, and the run goes on.
"""

import json
import os
from pathlib import Path

import pytest

from project import snakemake

RIGHT = """
DSL = "cuda"
SOURCE = "ours"
TARGETS = {"sm_90a": ()}

def supports(workload):
    return None

def variants(workload, target):
    from cutesnake.model.contract import Variant
    return (Variant("only", {}),)

def compile(variant, target, folder):
    return {"symbols": []}

def bind(build, workload, inputs, outputs):
    raise NotImplementedError
"""
CUTE = RIGHT.replace('"cuda"', '"cute"')
PROGRAM = """
    from cutesnake.stages.compile import cute
    def program():
        import cutlass.cute as cute
        from kernels.elementwise_add.device import add
        return add, ()
    return cute.build(program, "add", target, folder)
"""
DEVICE = """
import cutlass.cute as cute

@cute.jit
def add():
    cute.make_layot(3)
"""


def with_body(function: str, body: str, text: str = RIGHT) -> str:
    """A kernel whose function does something else."""
    head, rest = text.split(f"def {function}(", 1)
    signature, rest = rest.split("\n", 1)
    return f"{head}def {function}({signature}\n    {body}\n{rest}"


# Kernel -> its source, and what its row names besides the file: line, exception, function, or the faulty value.
WRONG_CONTRACTS = {
    "syntax": (RIGHT.replace("return None", "return ("), ("kernels/elementwise_add/syntax.py:7:", "SyntaxError")),
    "raises_in_supports": (with_body("supports", "workload.columnz"), ("raises_in_supports.py:7:", "AttributeError")),
    "raises_in_variants": (with_body("variants", "1 / 0"), ("raises_in_variants.py:10:", "ZeroDivisionError")),
    "no_variants": (with_body("variants", "return ()"), ("variants()", "m3_n1000_fp32")),
    "no_variants_at_all": (with_body("variants", "return None"), ("variants()", "None")),
    "odd_variants": (with_body("variants", "return (1, 2)"), ("variants()", "int")),
    "odd_answer": (with_body("supports", "return True"), ("supports()", "True")),
    "same_ids": (
        with_body(
            "variants", "from cutesnake.model.contract import Variant as V; return (V('a', {}), V('a', {'x': 1}))"
        ),
        ("'a'",),
    ),
    "path_as_id": (
        with_body("variants", "from cutesnake.model.contract import Variant as V; return (V('a/b', {}),)"),
        ("'a/b'",),
    ),
    "odd_params": (
        with_body("variants", "from cutesnake.model.contract import Variant as V; return (V('a', {'x': [1]}),)"),
        ("'x'", "[1]"),
    ),
    "other_dsl": (RIGHT.replace('"cuda"', '"triton"'), ("DSL", "'triton'", "cute, cutile")),
    "no_targets": (RIGHT.replace("TARGETS", "TARGET"), ("TARGETS",)),
    "no_bind": (
        RIGHT.replace("def bind", "def bound"),
        ("bind(build, workload, inputs, outputs)",),
    ),
    "wrong_import": (
        "import no_such_package\n" + RIGHT,
        ("wrong_import.py:1:", "ModuleNotFoundError", "no_such_package"),
    ),
    "exits": ("import sys; sys.exit(3)\n" + RIGHT, ("exits.py:1:", "SystemExit", "3")),
    "dash-ed": (RIGHT, ("dash-ed",)),
}
WRONG_BUILDS = {
    "no_file": (with_body("compile", "open('nothing')"), ("no_file.py:14:", "FileNotFoundError", "nothing")),
    "imports": (with_body("compile", "import no_such_dsl"), ("imports.py:14:", "ModuleNotFoundError", "no_such_dsl")),
    "leaves": (
        with_body("compile", "import os; os._exit(0)"),
        ("compile()", "exit code 0"),
    ),
    "nothing": (with_body("compile", "return None"), ("compile()", "empty", "mapping")),
    "empty": (with_body("compile", "return {}", CUTE), ("compile()", ".cubin")),
    "asserts": (
        with_body("compile", "assert variant.params"),
        ("asserts.py:14:", "AssertionError", "assert variant.params"),
    ),
    "key": (with_body("compile", "variant.params['tile']"), ("key.py:14:", "KeyError", "'tile'")),
    "hangs": (
        with_body("compile", "import time; time.sleep(600)"),
        ("compile()", "20"),
    ),
    "misspelt": (with_body("compile", PROGRAM.strip(), CUTE), ("device.py:6:",)),
}


@pytest.fixture
def newcomer(tmp_path) -> Path:
    folder = tmp_path / "kernels of mine" / "elementwise_add"
    folder.mkdir(parents=True)
    for name, (text, _) in (
        WRONG_CONTRACTS | WRONG_BUILDS | {"right": (RIGHT, ""), "latin_at_the_end": (RIGHT + "# é", "")}
    ).items():
        (folder / f"{name}.py").write_text(text, encoding="latin-1")
    (folder / "device.py").write_text(DEVICE)
    return folder.parent


@pytest.mark.fault(
    "Kernels", "syntax error, failing import, `sys.exit` or `os._exit` at import", "a row per target with file and line"
)
@pytest.mark.slow
def test_each_is_a_row_with_its_reason_and_everything_else_goes_on(fresh, newcomer) -> None:
    kernels = ["right", "latin_at_the_end", "cute", *WRONG_CONTRACTS, *WRONG_BUILDS]
    sweep = {"kernels": kernels, "dtypes": ["fp32"], "workloads": [{"rows": 3, "columns": 1000}], "profile": []}
    settings = ["targets=[sm_90a]", f'kernel_paths=["{newcomer}"]', f"sweeps={json.dumps({'elementwise_add': sweep})}"]
    settings += ["compile={max_seconds: 20}", "simulation={extent: none}"]
    done = snakemake(fresh, "--config", *settings, HOME=str(newcomer))
    assert done.returncode == 0, done.stdout + done.stderr
    (reported,) = [line for line in done.stderr.splitlines() if line.startswith("Failed: ")]
    assert reported.startswith(
        f"Failed: {len(WRONG_CONTRACTS)} kernels that cannot be loaded, {len(WRONG_BUILDS)} of 12 builds"
    )
    assert "results/mla_report.html" in reported
    plan = json.loads((fresh / "results/plan/elementwise_add.json").read_text())
    reasons = {decision["kernel"]: decision["build"]["reason"] for decision in plan["decisions"]}
    builds = (fresh / "results/compile/elementwise_add").glob("*/*/*/build.json")
    records = {entry["kernel"]: entry for entry in map(json.loads, map(Path.read_text, builds))}
    page = (fresh / "results/mla_report.html").read_text()
    assert all(records[kernel]["status"] == "failed" for kernel in WRONG_BUILDS)
    reasons |= {kernel: records[kernel]["reason"] for kernel in WRONG_BUILDS}
    for kernel, (_, named) in (WRONG_CONTRACTS | WRONG_BUILDS).items():
        file = "device.py" if kernel == "misspelt" else f"{kernel}.py"
        assert file in reasons[kernel], (kernel, reasons[kernel])
        assert all(part in reasons[kernel] for part in named), (kernel, reasons[kernel], named)
    for kernel in WRONG_CONTRACTS:
        assert "\n" not in reasons[kernel] and "Traceback" not in reasons[kernel]
    assert {records[kernel]["status"] for kernel in ("right", "latin_at_the_end", "cute")} == {"ok"}
    assert all(kernel in page for kernel in kernels)
    texts = [page, *(json.dumps(entry) for entry in (*records.values(), plan))]
    assert not any(str(newcomer) in text or str(fresh) in text for text in texts)
    assert os.sep not in reasons["syntax"].removeprefix("kernels/elementwise_add/syntax.py")
