"""Generated blocks of README.md and docs/ agree with the records that they are made from."""

import json
import shutil

import pytest

from cutesnake.analysis.compare.recorded import recorded_speedups
from cutesnake.model.paths import ROOT
from cutesnake.report import document_blocks, document_tables
from cutesnake.report.document_blocks import BlockError, documents, filled

ONE = {"one": lambda *message: f"made of {' '.join(message)}"}


def test_every_generated_block_is_current() -> None:
    problems = [
        line for path in documents() for line in filled(path.read_text(), path.relative_to(ROOT).as_posix()).problems
    ]
    assert not problems


def test_the_readme_and_the_results_page_have_generated_blocks() -> None:
    for name in ("README.md", "docs/results.md"):
        assert "<!-- generated: " in (ROOT / name).read_text()


def test_a_block_is_filled_and_the_rest_of_the_document_stays() -> None:
    text = "a\n<!-- generated: one x y -->\nold\n<!-- end -->\nb\n"
    result = filled(text, "d.md", ONE)
    assert result.text == "a\n<!-- generated: one x y -->\n\nmade of x y\n\n<!-- end -->\nb\n"
    (line,) = result.problems
    assert line.startswith("d.md:2: generated block 'one x y' differs") and document_blocks.COMMAND in line
    assert filled(result.text, "d.md", ONE) == (result.text, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- generated: two -->\n<!-- end -->\n", "unknown name; known: one"),
        ("<!-- generated: one -->\n", "`<!-- end -->` is missing"),
        ("<!-- generated: one -->\n<!-- generated: one -->\n<!-- end -->\n", "`<!-- end -->` is missing"),
        ("<!-- generated:  -->\n<!-- end -->\n", "unknown name"),
    ],
)
def test_a_block_that_cannot_be_filled_is_named(text: str, message: str) -> None:
    with pytest.raises(BlockError, match=r"d\.md:1: generated block") as error:
        filled(text, "d.md", ONE)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_check_fails_on_a_changed_figure_and_writing_mends_it(tmp_path, capsys) -> None:
    page = tmp_path / "README.md"
    page.write_text(filled("<!-- generated: in_one_run -->\n<!-- end -->\n", "README.md").text)

    def run(*arguments: str) -> tuple[int, str]:
        return document_blocks.main(arguments, tmp_path), capsys.readouterr().err

    assert run("--check") == (0, "")
    right = page.read_text()
    page.write_text(right.replace("1.280", "1.290", 1))
    status, message = run("--check")
    assert status == 1 and message.count("\n") == 1 and "README.md:1: generated block 'in_one_run'" in message
    assert run() == (0, "") and page.read_text() == right
    assert run("--check") == (0, "")


def test_a_changed_record_changes_the_table(tmp_path, monkeypatch) -> None:
    before = document_tables.in_one_run()
    folder = tmp_path / "mla_cute_sm90"
    shutil.copytree(ROOT / "benchmarks" / "mla_cute_sm90", folder)
    record = json.loads((folder / "h200.json").read_text())
    for row in record["groups"]["ragged"]:
        row["flash_mla"]["warm_us"] *= 2
    (folder / "h200.json").write_text(json.dumps(record))
    monkeypatch.setattr(document_tables, "BENCHMARKS", tmp_path)
    lines = zip(before.splitlines(), document_tables.in_one_run().splitlines(), strict=True)
    changed = [new for old, new in lines if new != old]
    assert len(changed) == 1 and "| ragged batches | 7 | 2.520 " in changed[0]


def test_a_changed_line_of_a_recorded_set_changes_the_speedup(tmp_path) -> None:
    for source in (ROOT / "recorded/nvidia_h200").glob("timing-reduce-*.jsonl"):
        lines = [json.loads(line) for line in source.read_text().splitlines()]
        for line in lines:
            if line["case"]["dsl"] == "cutile":
                line["metrics"]["hot_us"] *= 2
        (tmp_path / "nvidia_h200").mkdir(exist_ok=True)
        (tmp_path / "nvidia_h200" / source.name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "nvidia_h200/set.json").write_text("{}")
    (changed,) = recorded_speedups("reduce", tmp_path).speedups
    (now,) = [one for one in recorded_speedups("reduce").speedups if one.device.device == "NVIDIA H200"]
    assert changed.warm.mean == pytest.approx(2 * now.warm.mean) and changed.cold == now.cold
