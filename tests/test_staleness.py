"""Digests follow the code that a result depends on, and nothing else."""

from pathlib import Path

import pytest

from cutesnake.planning import staleness

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
    monkeypatch.setattr(staleness, "KNOWN", tmp_path / "known.json")
    monkeypatch.setattr(staleness, "SCRIPTS", tmp_path / "scripts")
    monkeypatch.setattr(staleness, "PLACES", {"cutesnake": tmp_path / "scripts"})
    monkeypatch.setattr(staleness, "roots", lambda: [tmp_path / "kernels"])
    monkeypatch.setattr(staleness, "label", lambda path: str(path.relative_to(tmp_path)))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    for name in ("closure", "_imported", "_known", "_module_files", "digest_code"):
        getattr(staleness, name).cache_clear()


def found(tree: Path, *modules: str, **options) -> set[str]:
    return {path.name for path in staleness.closure(*modules, **options)}


def test_imports_are_followed_at_any_depth(tree) -> None:
    everything = {"contract.py", "device.py", "shapes.py", "running.py", "__init__.py", "inner.py"}
    assert found(tree, "kernels.add.contract") == everything


def test_a_build_does_not_depend_on_the_running_side(tree) -> None:
    assert found(tree, "kernels.add.contract", baked=True) == {"contract.py", "device.py", "shapes.py"}


def test_what_is_marked_does_not_count_in_a_builds_digest_and_the_rest_does(tree) -> None:
    def digest() -> str:
        forget()
        return staleness.digest_files([tree / "kernels/add/contract.py"], baked=True)

    contract = tree / "kernels/add/contract.py"
    before, text = digest(), contract.read_text()
    contract.write_text(text.replace("import bind", "import bind  # changed").replace("class Plan:", "class Plan: # x"))
    assert digest() == before
    contract.write_text(text.replace("import kernel", "import kernel  # changed"))
    assert digest() != before


def test_the_digest_changes_with_what_it_depends_on_only(tree) -> None:
    before = staleness.digest_code("kernels.add.contract")
    (tree / "kernels/add/other.py").write_text("changed = 1\n")
    forget()
    assert staleness.digest_code("kernels.add.contract") == before
    (tree / "scripts/cutesnake/pack/inner.py").write_text("changed = 1\n")
    forget()
    assert staleness.digest_code("kernels.add.contract") != before


def test_data_digests_ignore_key_order() -> None:
    assert staleness.digest_data({"a": 1, "b": [2]}) == staleness.digest_data({"b": [2], "a": 1})
    assert staleness.digest_data({"a": 1}) != staleness.digest_data({"a": 2})


def test_what_files_import_is_remembered_by_their_content(tree, monkeypatch) -> None:
    everything = found(tree, "kernels.add.contract")
    staleness.remember()
    forget()
    monkeypatch.setattr(staleness, "_parse_imports", lambda *_: pytest.fail("parsed again"))
    assert found(tree, "kernels.add.contract") == everything


def test_a_damaged_memory_is_only_slower(tree) -> None:
    staleness.KNOWN.write_text('{"cut sho')
    assert "device.py" in found(tree, "kernels.add.contract")


@pytest.mark.parametrize("content", ["@not_baked\ndef (", "@not_baked\nx = 1 # \udce9"])
def test_a_file_that_is_no_python_has_a_digest(tree, content) -> None:
    path = tree / "kernels/add/device.py"
    path.write_bytes(content.encode(errors="surrogateescape"))
    assert staleness.digest_files([path], baked=True) != staleness.digest_files([tree / "kernels/add/other.py"])


@pytest.mark.parametrize(
    "damage",
    ["{", "[]", "[" * 100_000, '{"digest": 3, "imports": {}}', '{"digest": "", "imports": {"a": [1]}}', "\udcff"],
)
def test_a_damaged_memory_of_imports_is_made_anew(tree, damage) -> None:
    before = found(tree, "kernels.add.contract")
    (tree / "known.json").write_bytes(damage.encode(errors="surrogateescape"))
    forget()
    assert found(tree, "kernels.add.contract") == before
    staleness.remember()
    forget()
    assert staleness._known() and found(tree, "kernels.add.contract") == before


def test_a_marked_method_is_no_part_of_a_build_either(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(staleness, "label", lambda path: path.name)
    path = tmp_path / "adapter.py"
    text = "class Example:\n  def compile(self):\n    return 1\n  @not_baked\n  def bind(self):\n    return 2\n"
    digests = []
    for content in (text, text.replace("return 2", "return 3"), text.replace("return 1", "return 4")):
        path.write_text(content)
        digests.append(staleness.digest_files([path], baked=True))
    assert digests[0] == digests[1] != digests[2]
