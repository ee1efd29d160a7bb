"""Digests follow the code that a result depends on, and nothing else."""

import ast
import re
from pathlib import Path

import pytest

from cutesnake.planning import looked_at, staleness

FILES = {
    "kernels/add/contract.py": """
from cutesnake.shapes import SHAPE
@not_baked
def bind():
    from cutesnake.running import bind
def compile():
    from kernels.add.device import kernel
@contract.not_baked
class Plan:
    from cutesnake.running import load
""",
    "kernels/add/device.py": "from cutesnake import shapes\n",
    "kernels/add/other.py": "",
    "scripts/cutesnake/shapes.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import cutesnake.types\n",
    "scripts/cutesnake/types.py": "",
    "scripts/cutesnake/running.py": "from .pack import inner\n",
    "scripts/cutesnake/pack/__init__.py": "",
    "scripts/cutesnake/pack/inner.py": "",
}


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(staleness, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    Path(".snakemake").mkdir()
    monkeypatch.setattr(looked_at, "FINE_NS", -1)
    monkeypatch.setattr(staleness, "SCRIPTS", tmp_path / "scripts")
    monkeypatch.setattr(staleness, "PLACES", {"cutesnake": tmp_path / "scripts"})
    monkeypatch.setattr(staleness, "roots", lambda: [tmp_path / "kernels"])
    monkeypatch.setattr(staleness, "label", lambda path: str(path.relative_to(tmp_path)))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    looked_at.memory.cache_clear()
    for name in ("closure", "_source", "_module_files", "code_of"):
        getattr(staleness, name).cache_clear()


def outcome(tree: Path, *modules: str, **options) -> set[str]:
    return {path.name for path in staleness.closure(*modules, **options)}


def test_imports_are_followed_at_any_depth(tree) -> None:
    everything = {"contract.py", "device.py", "shapes.py", "running.py", "__init__.py", "inner.py"}
    assert outcome(tree, "kernels.add.contract") == everything


def test_a_build_does_not_depend_on_the_running_side(tree) -> None:
    assert outcome(tree, "kernels.add.contract", for_builds=True) == {"contract.py", "device.py", "shapes.py"}


def test_what_is_marked_does_not_count_in_a_builds_digest_and_the_rest_does(tree) -> None:
    contract = tree / "kernels/add/contract.py"

    def digests(text: str) -> tuple[str, str]:
        contract.write_text(text)
        forget()
        return staleness.digest_files([contract], for_builds=True), staleness.digest_files([contract])

    text = contract.read_text()
    before = digests(text)
    marked = digests(text.replace("import bind", "import bound").replace("class Plan:", "class Plan(Base):"))
    assert marked[0] == before[0] and marked[1] != before[1]
    assert digests(text.replace("import kernel", "import kernels"))[0] != before[0]


@pytest.mark.fault("Results", "comments, docstrings or layout edited", "nothing")
@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda text: text.replace("return x", "return x  # doubled\n"), False),
        (lambda text: f"# first\n\n{text}", False),
        (lambda text: text.replace('"""Of the module."""', ""), False),
        (lambda text: text.replace("Of the method.", "Changed."), False),
        (lambda text: text.replace("(x, y=None)", "(\n    x,\n    y=None,\n)"), False),
        (lambda text: text.replace('"no docstring"', '"another string"'), True),
        (lambda text: text.replace("y=None", "y=0"), True),
        (lambda text: text.replace("y=None", "y"), True),
        (lambda text: text.replace("class A", "class B"), True),
        (lambda text: text.replace("return x", "return y"), True),
        (lambda text: text.replace("1.0", "1"), True),
        (lambda text: text.replace("async def", "def"), True),
        (lambda text: text.replace("'a'", "b'a'"), True),
    ],
)
def test_comments_docstrings_and_layout_do_not_count_and_all_else_does(tree, change, counts) -> None:
    text = (
        '"""Of the module."""\nclass A:\n    def f(self):\n        """Of the method."""\n        "no docstring"\n'
        "async def g(x, y=None):\n    global z\n    z = 1.0, 'a'\n    return x\n"
    )
    path, digests = tree / "kernels/add/device.py", []
    for content in (text, change(text)):
        path.write_text(content)
        forget()
        digests.append(staleness.digest_files([path]))
    assert change(text) != text and (digests[0] != digests[1]) == counts


def test_every_part_of_a_module_counts(tree) -> None:
    # Taking any name or constant of a long module away changes its digest. No part of the tree is passed over.
    source = Path(staleness.__file__).read_text()
    path, body = tree / "kernels/add/device.py", ast.parse(source).body
    path.write_text(source)
    seen = {staleness.digest_files([path])}
    for place in range(1, len(body)):
        path.write_text(ast.unparse(ast.Module(body[:place] + body[place + 1 :], [])))
        forget()
        seen.add(staleness.digest_files([path]))
    assert len(seen) == len(body)


def test_kernels_files_are_named_and_the_rest_counts_together(tree) -> None:
    assert staleness.code_of("kernels.add.contract").keys() == {
        *("kernels/add/contract.py", "kernels/add/device.py"), staleness.WORKFLOW
    }  # fmt: skip


def test_the_digest_changes_with_what_it_depends_on_only(tree) -> None:
    before = staleness.code_of("kernels.add.contract")
    (tree / "kernels/add/other.py").write_text("changed = 1\n")
    forget()
    assert staleness.code_of("kernels.add.contract") == before
    (tree / "scripts/cutesnake/pack/inner.py").write_text("changed = 1\n")
    forget()
    assert staleness.code_of("kernels.add.contract") != before


@pytest.mark.parametrize(
    ("part", "counts"),
    [
        *((name, True) for name in ("__init__", "core/run", "isa/bits", "checks/lanes", "timing/predict", "new/door")),
        *((name, False) for name in ("commandline/reports", "museum/bugs/no_keys", "pytest_plugin", "census")),
    ],
)
def test_ptxsims_digest_changes_with_what_decides_results_only(tree, monkeypatch, part, counts) -> None:
    monkeypatch.setattr(staleness, "PLACES", {**staleness.PLACES, "ptxsim": tree})
    (tree / "scripts/cutesnake/running.py").write_text("import ptxsim\n")
    file = tree / "ptxsim" / f"{part}.py"
    file.parent.mkdir(parents=True)
    (tree / "ptxsim/__init__.py").write_text("")
    keys = []
    for content in ("", "changed = 1\n"):
        file.write_text(content)
        forget()
        keys.append(staleness.code_of("cutesnake.running")[staleness.SIMULATOR])
    assert (keys[0] != keys[1]) == counts


def test_simulating_stages_import_nothing_of_ptxsims_command_line() -> None:
    for stage in ("simulate.simulation", "predict.prediction", "anatomy.watch"):
        names = {staleness.label(path) for path in staleness.closure(f"cutesnake.stages.{stage}")}
        assert {"ptxsim/core/run.py", "ptxsim/isa/bits.py", "ptxsim/checks/lanes.py"} <= names
        assert not [x for x in names if x.startswith(("ptxsim/commandline", "ptxsim/museum"))]


def test_data_digests_ignore_key_order() -> None:
    assert staleness.digest_data({"a": 1, "b": [2]}) == staleness.digest_data({"b": [2], "a": 1})
    assert staleness.digest_data({"a": 1}) != staleness.digest_data({"a": 2})


def test_what_files_import_is_remembered_by_their_content(tree, monkeypatch) -> None:
    everything = outcome(tree, "kernels.add.contract")
    looked_at.memory().save()
    forget()
    monkeypatch.setattr(staleness, "_read", lambda *_: pytest.fail("parsed again"))
    for path in (tree / "kernels/add").iterdir():
        path.touch()
    assert outcome(tree, "kernels.add.contract") == everything


def test_a_file_that_changes_while_it_is_read_is_not_remembered(tree, monkeypatch) -> None:
    path = tree / "kernels/add/device.py"
    with monkeypatch.context() as patched:
        old = looked_at.digest(str(path))
        path.write_text("import cutesnake.pack\n")
        patched.setattr(staleness, "digest_of_file", lambda _: old)
        changed = staleness.digest_files([path])
    path.write_text(FILES["kernels/add/device.py"])
    staleness._source.cache_clear()  # and not the memory
    assert staleness.digest_files([path]) != changed


@pytest.mark.parametrize("content", ["@not_baked\ndef (", "@not_baked\nx = 1 # \udce9"])
def test_a_file_that_is_no_python_has_a_digest(tree, content) -> None:
    path = tree / "kernels/add/device.py"
    path.write_bytes(content.encode(errors="surrogateescape"))
    assert staleness.digest_files([path], for_builds=True) != staleness.digest_files([tree / "kernels/add/other.py"])


def test_a_marked_method_is_no_part_of_a_build_either(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(staleness, "label", lambda path: path.name)
    path = tmp_path / "adapter.py"
    text = "class Example:\n  def compile(self):\n    return 1\n  @not_baked\n  def bind(self):\n    return 2\n"
    digests = []
    for content in (text, text.replace("return 2", "return 3"), text.replace("return 1", "return 4")):
        path.write_text(content)
        forget()
        digests.append(staleness.digest_files([path], for_builds=True))
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(("first", "counts"), [('DSL = "cute"', False), ("", True)])
def test_no_build_depends_on_a_contracts_bind_supports_and_variants(tree, first, counts) -> None:
    path, digests = tree / "kernels/add/contract.py", []
    text = "\n".join((first, *(f"def {name}():\n    return 1" for name in ("bind", "supports", "variants", "compile"))))
    for place in range(4):
        path.write_text(text.replace("1", "2", place))
        forget()
        digests.append(staleness.digest_files([path], for_builds=True))
    assert (len(set(digests)) > 1) == counts
    path.write_text(text.replace("1", "2"))
    forget()
    assert staleness.digest_files([path], for_builds=True) not in digests


@pytest.mark.parametrize(
    ("use", "counts"),
    [
        ("def bind(inputs: Inputs):\n    return BITS", False),
        ("@not_baked\ndef grid(inputs: Inputs) -> Inputs:\n    return BITS", False),
        ("x: Inputs = None", False),
        ("def compile():\n    return BITS", True),
        ("TILES = BITS", True),
        ("class Example(Inputs):\n    pass", True),
    ],
)
def test_a_build_depends_on_an_operator_for_what_it_uses_itself_only(tree, use, counts) -> None:
    (tree / "kernels/add/operator.py").write_text("BITS = 8\n")
    head = 'from kernels.add.operator import BITS, Inputs\nDSL = "cute"\n'
    (tree / "kernels/add/contract.py").write_text(head + use)
    assert "operator.py" in outcome(tree, "kernels.add.contract")
    assert ("operator.py" in outcome(tree, "kernels.add.contract", for_builds=True)) == counts


@pytest.mark.parametrize("script", sorted(path.name for path in staleness.SCRIPTS.glob("*.py")))
def test_results_depend_on_the_tasks_that_a_script_names(script) -> None:
    tasks = re.findall(r"cutesnake\.[\w.]+(?=:\w|:\{)", (staleness.SCRIPTS / script).read_text())
    assert {Path(staleness.SCRIPTS, *task.split(".")).with_suffix(".py") for task in tasks} <= staleness.closure(script)
