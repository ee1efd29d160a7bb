"""What is missing, damaged or stale is found by content, with its reason.

Dates, copies and links decide nothing.
"""

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cutesnake.model import provenance, record
from cutesnake.model.dsls import DSLS
from cutesnake.planning import looked_at, outputs
from cutesnake.planning.outputs import Product
from cutesnake.report.catalogue import write_placeholders

SETTINGS = {"code": {"workflow": "c0de", "kernels/add/cute.py": "0ld"}, "params": {"settings": "5e77"}}
VERSIONS = {"nvidia-cutlass-dsl": "4.8.1", "numpy": "2.4.6"}


class Chain:
    """Plots of an operator, and a page made from them and a project file."""

    def __init__(self) -> None:
        self.recipe: dict[str, Any] = json.loads(json.dumps({**SETTINGS, "versions": VERSIONS}))
        self.files = ["results/plot/add", "results/table.csv"]

    def products(self, **options: Any) -> list[Product]:
        recipe = self.recipe
        return [
            Product("results/plot/add", "plot", lambda: recipe, **options),
            Product("results/page.html", "report", lambda: SETTINGS | {"versions": {}}, tuple(self.files)),
        ]

    def make(self, which: tuple[str, ...] = ("plot", "page")) -> None:
        folder = Path("results/plot/add")
        if "plot" in which:
            with provenance.making(self.recipe):
                record.write_text(folder / "a.svg", "<svg></svg>")
                files = provenance.digests([folder / "a.svg"], folder)
                entry = {"stage": "plot", "status": "ok", "reason": None, "operator": "add", "pictures": []}
                record.write("plot", folder / "pictures.json", {**entry, "provenance": {}}, files=files)
        if "page" in which:
            with provenance.making(SETTINGS | {"versions": {}}, self.files):
                record.write_text("results/page.html", provenance.signed_page("<html></html>"))

    def look(self, **options: Any) -> outputs.Findings:
        looked_at.memory().save()
        looked_at.memory.cache_clear()
        return outputs.look(self.products(), **options)


@pytest.fixture
def chain(tmp_path, monkeypatch) -> Chain:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(looked_at, "FINE_NS", -1)
    looked_at.memory.cache_clear()
    Path(".snakemake").mkdir()
    Path("results").mkdir()
    Path("results/table.csv").write_text("a,b\n")
    made = Chain()
    made.make()
    yield made
    looked_at.memory.cache_clear()


PLOT, PAGE = "results/plot/add", "results/page.html"
AFTER = "made from results/plot/add, which is made again"


def test_what_is_current_is_found_so_without_reading_it_again(chain, monkeypatch) -> None:
    assert chain.look().why == {}
    monkeypatch.setattr(outputs, "_whole", lambda product: pytest.fail("read again"))
    assert chain.look().why == {}


def test_what_was_never_made_is_not_missing(chain) -> None:
    for name in (PLOT, PAGE):
        shutil.rmtree(name) if Path(name).is_dir() else Path(name).unlink()
    assert chain.look().why == {}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda recipe: recipe["versions"].update(numpy="2.5.0"), "numpy 2.4.6 → 2.5.0"),
        (lambda recipe: recipe["versions"].update(torch="2.13.0"), "torch not installed → 2.13.0"),
        (lambda recipe: recipe["code"].update({"kernels/add/cute.py": "new"}), "kernels/add/cute.py changed"),
        (lambda recipe: recipe["code"].update(workflow="new"), "the workflow's code changed"),
        (lambda recipe: recipe["params"].update(settings="other"), "its settings changed"),
    ],
)
def test_what_was_made_from_something_else_is_stale_with_what_follows(chain, change, why) -> None:
    assert chain.look().why == {}
    change(chain.recipe)
    result = chain.look()
    assert result.why == {PLOT: why, PAGE: AFTER} and result.unexplained == []
    assert result.staleness() == f"1 stale, made again with what follows: {why}" and result.damage() is None


@pytest.mark.fault("Results", "the placeholder of a page lost or damaged", "rewritten")
@pytest.mark.parametrize(
    ("text", "why"),
    [(None, "other.html is missing"), ("", "other.html is empty"), ("<html>", "other.html is cut short")],
)
def test_a_page_whose_placeholder_is_lost_or_damaged_is_made_again(chain, text, why) -> None:
    other = Path("results/other.html")
    write_placeholders({other.name: "catalogue"}, Path("results"))
    page = replace(chain.products()[1], linked=(str(other),))
    assert outputs.look([page]).why == {}
    other.unlink()
    if text is not None:
        other.write_text(text)
    assert outputs.look([page]).why == {PAGE: why}
    write_placeholders({other.name: "catalogue"}, Path("results"))
    assert outputs.look([page]).why == {}
    other.write_text("<html></html>")  # the page itself, made by another run, is kept
    write_placeholders({other.name: "catalogue"}, Path("results"))
    assert other.read_text() == "<html></html>" and outputs.look([page]).why == {}


def test_a_distribution_that_is_not_installed_here_is_not_compared(chain) -> None:
    chain.recipe["versions"]["nvidia-cutlass-dsl"] = None
    assert chain.look().why == {}


def test_another_set_of_inputs_is_stale(chain) -> None:
    Path("results/more.csv").write_text("c\n")
    chain.files.append("results/more.csv")
    assert chain.look().why == {PAGE: "made from results/more.csv less than now"}
    chain.files = chain.files[:1]
    assert chain.look().why == {PAGE: "made from results/table.csv that no longer count"}


def test_an_input_counts_by_content_whatever_its_date(chain) -> None:
    table = Path("results/table.csv")
    for date in (0, time.time() + 86_400):
        os.utime(table, (date, date))
        assert chain.look().why == {}
    table.write_text("a,c\n")
    os.utime(table, (0, 0))
    assert chain.look().why == {PAGE: "made from another results/table.csv"}


def test_a_result_made_from_another_one_is_stale(chain) -> None:
    time.sleep(0.01)
    Path("results/plot/add/a.svg").unlink()
    chain.recipe["params"]["settings"] = "other"
    chain.make(("plot",))
    assert chain.look().why == {PAGE: f"made from another {PLOT}"}


def edited(path: str, old: str, new: str) -> None:
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new))


@pytest.mark.fault("Results", "a record, plot, table, page, cubin or PTX cut short, emptied or deleted", "remade")
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda: edited(f"{PLOT}/pictures.json", '"add"', '"sub"'), "pictures.json: it is not what was written"),
        (lambda: edited(f"{PLOT}/a.svg", "<svg>", "<svg >"), "a.svg is not the file that was made"),
        (lambda: Path(PLOT, "a.svg").unlink(), "a.svg is missing"),
        (lambda: Path(PLOT, "pictures.json").unlink(), "pictures.json is missing"),
        (lambda: Path(PLOT, "pictures.json").write_text("{"), "not a whole JSON file"),
    ],
)
def test_what_is_damaged_is_told_and_made_again_with_what_follows(chain, damage, message) -> None:
    assert chain.look().why == {}
    damage()
    result = chain.look()
    assert message in result.why[PLOT] and result.why[PAGE] == AFTER and result.unexplained == [PLOT]


@pytest.mark.parametrize("content", ["", "<html>", "<html></html"])
def test_a_page_that_was_cut_short_is_damaged(chain, content) -> None:
    Path(PAGE).write_text(content)
    assert chain.look().unexplained == [PAGE]


def test_an_edited_page_is_damaged(chain) -> None:
    edited(PAGE, "<html>", "<html> ")
    assert chain.look().unexplained == [PAGE]


def test_what_is_missing_under_what_follows_is_told_if_it_was_seen(chain) -> None:
    shutil.rmtree(PLOT)
    result = chain.look()
    assert result.why == {PLOT: "missing", PAGE: f"made from {PLOT}, which is missing"} and result.unexplained == []
    chain.make()
    assert chain.look().why == {}
    shutil.rmtree(PLOT)
    assert chain.look().unexplained == [PLOT]


def test_what_only_what_is_missing_needs_is_no_loss(chain) -> None:
    shutil.rmtree(PLOT)
    result = outputs.look([*chain.products(spare=True)])
    assert result.why == {}


def test_a_folder_that_was_copied_or_lost_its_notes_is_current(chain, tmp_path, monkeypatch) -> None:
    deeper = tmp_path / "a" / "deeper"
    shutil.copytree(tmp_path / "results", deeper / "results", copy_function=shutil.copy)  # cp -r: dated now
    monkeypatch.chdir(deeper)
    looked_at.memory.cache_clear()
    assert chain.look().why == {}


def test_results_that_are_a_link_are_current(chain, tmp_path) -> None:
    os.rename("results", "elsewhere")
    os.symlink("elsewhere", "results")
    assert chain.look().why == {}


def test_what_is_forced_takes_what_follows_along(chain) -> None:
    assert set(chain.look(forced=lambda product: product.stage == "plot").why) == {PLOT, PAGE}


def test_what_a_build_opened_counts(chain, monkeypatch) -> None:
    monkeypatch.setattr(outputs, "ROOT", Path("project"))
    Path("project").mkdir()
    Path("project/tiles.json").write_text("{}")
    made = {**chain.recipe, "files": {}, "opened": {"tiles.json": outputs.content_of("project/tiles.json")}}
    assert outputs.difference(made, chain.recipe, {}) is None
    Path("project/tiles.json").write_text("[]")
    assert outputs.difference(made, chain.recipe, {}) == "tiles.json changed"
    Path("project/tiles.json").unlink()
    assert outputs.difference(made, chain.recipe, {}) == "tiles.json changed"


def test_a_build_that_hit_its_time_limit_is_tried_again_with_a_higher_one(chain) -> None:
    made = {**chain.recipe, "files": {}, "limit_s": 10.0}
    assert outputs.difference(made, chain.recipe, {}, limit_s=10.0) is None
    assert outputs.difference(made, chain.recipe, {}, limit_s=20.0) == "the time limit was 10 s and is 20 s"


def test_a_record_of_before_is_stale(chain) -> None:
    assert outputs.difference(None, chain.recipe, {}) == outputs.NO_WORD


@pytest.mark.fault("Results", "a compiler uninstalled", "builds stay in use")
def test_builds_of_elsewhere_count_where_a_compiler_is_missing(tmp_path) -> None:
    build = tmp_path / "compile/add/cute/sm_90a/v"
    build.mkdir(parents=True)
    everything = {name: "1" for dsl in DSLS.values() for name in dsl.build_packages}
    lacking = everything | {"nvidia-cutlass-dsl": None}
    assert outputs.carried(tmp_path, lacking) == frozenset()
    (build / "build.json").touch()
    assert outputs.carried(tmp_path, everything) == frozenset()
    assert outputs.carried(tmp_path, lacking) == {"add/cute/sm_90a"}


@pytest.mark.fault("Results", "a pipe or a device in place of a result", "not read, and remade")
@pytest.mark.parametrize("kind", ["device", "pipe"])
@pytest.mark.parametrize("name", ["results/page.html", "results/plot/add/pictures.json", "results/plot/add/a.svg"])
def test_what_reads_for_ever_is_damaged_and_not_read(chain, kind, name) -> None:
    path = Path(name)
    path.unlink()
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    result = chain.look()
    product = PAGE if name == PAGE else PLOT
    assert result.why[product] == f"{path.name} is no regular file" and result.unexplained == [product]


def test_an_input_that_reads_for_ever_is_not_read(chain) -> None:
    assert chain.look().why == {}
    Path("results/table.csv").unlink()
    os.mkfifo("results/table.csv")
    chain.look()
