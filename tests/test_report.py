"""The page: says what ran, escapes what it is given, needs nothing but itself, and works in a browser."""

from __future__ import annotations

import copy
import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import sample
from cutesnake.compare.comparison import compare
from cutesnake.plot import plot
from cutesnake.report import Contents, render, write_report
from cutesnake.report.comparison import tables
from cutesnake.report.words import signed, state, where

ROOT = Path(__file__).resolve().parents[1]
VOID = {"meta", "link", "br", "input", "img", "hr"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def contents(evidence, folder, draw=False, front=None, **more):
    pictures = plot(evidence, folder)["pictures"] if draw else []
    upstream = yaml.safe_load((ROOT / "kernels" / "upstream.yaml").read_text())
    comparison = compare(evidence)
    given = {
        "arch": sample.arch(gpu=any(s["ok"] for s in evidence.plan["stages"])),
        "evidence": evidence,
        "comparison": comparison,
        "pictures": pictures,
        "picture_folder": folder,
        "config": "targets: [sm_90a, sm_100a] # <as used>\n",
        "upstream": upstream,
        "commit": "abc1234",
        "comparisons": [] if front else [comparison],
        "front": front,
    }
    return Contents(**{**given, **more})


class Page(HTMLParser):
    """Structure and visible text of a page; raises on a tag that is not closed in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.loads, self.words, self.heads = [], [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        self.loads += [found[key] for key in ("src", "srcset", "poster", "data") if key in found]
        if tag == "link":
            self.loads.append(found["href"])
        if tag == "th":
            self.heads.append(found.get("scope"))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.fixture(scope="module")
def none(tmp_path_factory):
    """The page of a machine with no GPU, pictures included."""
    return render(contents(sample.evidence(), tmp_path_factory.mktemp("none"), draw=True))


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    return render(contents(sample.evidence(gpu=True, recorded=True), tmp_path_factory.mktemp("gpu")))


def test_page_is_well_formed_and_loads_nothing(none):
    page = Page(none)
    assert len(page.ids) == len(set(page.ids))
    assert page.loads == ["data:,"]  # an empty icon keeps browsers from asking for one
    assert "@import" not in none and "url(http" not in none
    assert not re.search(r"\b(fetch|XMLHttpRequest|import)\s*\(", none)
    assert all(scope in ("col", "row", "rowgroup") for scope in page.heads)


def test_links_within_the_page_lead_somewhere(none):
    page = Page(none)
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside and inside <= set(page.ids)


def test_sections_come_in_the_order_of_a_newcomers_questions(none):
    page = Page(none)
    order = [page.ids.index(name) for name in ("ran", "comparison", "pictures", "kernels", "roofline", "provenance")]
    assert order == sorted(order)


def test_what_ran_comes_first_with_counts_and_reasons(none):
    text = Page(none).text
    assert "No GPU here: no NVIDIA driver is installed." in text
    assert "13 of 15 ✕ builds compiled 2 failed" in text
    assert "0 of 60 ◐ cases checked on a GPU 1 checked by simulation" in text
    assert "2 of 2 failed" in text
    assert "Not checked, timed or profiled: no GPU here" in text
    assert "4 workloads left out: takes fp16 only." in text
    assert "Not built: not written for sm_90a: it is for sm_100a." in text


def test_first_sentences_say_what_was_measured_where(none, gpu, tmp_path):
    text = Page(none).text
    assert "Nothing was measured on this machine: it has no GPU in use." in text
    assert "It compiled and inspected 13 of 15 builds and checked 1 case by simulation on the CPU." in text
    assert "No recorded device has these kernels either" in text and "in recorded sets" not in text
    text = Page(gpu).text
    assert "Measured on this machine, on NVIDIA H200, 2026-11-19: 4 kernels of mla_decode on 8 workloads." in text
    assert "Beside that stand measurements recorded on NVIDIA H200, 2026-11-19: 4 kernels of mla_decode" in text


def test_a_laptop_shows_what_was_recorded_elsewhere(tmp_path):
    text = Page(render(contents(sample.evidence(recorded=True), tmp_path))).text
    assert "Nothing was measured on this machine: it has no GPU in use." in text
    assert (
        "The times below are measurements recorded on NVIDIA H200, 2026-11-19: "
        "4 kernels of mla_decode on 8 workloads." in text
    )
    assert "0 of 60 ○ cases timed 32 in recorded sets" in text  # 4 kernels x 8 workloads
    assert "cases profiled with ncu 16 in recorded sets" in text  # of batch 32
    assert "No recorded device" not in text


def test_what_several_rows_share_is_said_once_and_referred_to(gpu):
    comparison = compare(sample.evidence(gpu=True, recorded=True))
    for table in tables(comparison):
        said = [(box["kernels"], i["sentence"]) for box in table["common"] for i in box["insights"]]
        assert said and len(said) == len(set(said))
        ids = {i["id"] for box in table["common"] for i in box["insights"]}
        for group in table["groups"]:
            assert {reference["id"] for reference in group["shared"]} <= ids
            kernels = " beside ".join(line["kernel"] for line in group["lines"][:2] if line["kernel"])
            assert not {(kernels, i["sentence"]) for i in group["insights"]} & set(said)
        rows = [
            row
            for row in comparison["rows"]
            if (row["target"], where(row["device"])) == (table["target"], table["where"])
        ]
        assert sum(len(g["insights"]) + len(g["shared"]) for g in table["groups"]) == sum(
            len(r["insights"]) for r in rows
        )
    assert '<details class="common">' in gpu  # closed until it is asked for


def test_the_schedule_step_is_a_column_only_where_some_kernel_has_one():
    evidence = sample.evidence(gpu=True)
    (plain, *_) = tables(compare(evidence))
    assert "Schedule" not in [metric["name"] for metric in plain["metrics"]]
    for entry in evidence.measured.values():
        if entry["stage"] == "timing" and entry["case"]["kernel"] == "torch_sdpa":
            entry["metrics"]["plan_us"] = 6.0
    (table, *_) = tables(compare(evidence))
    column = [metric["name"] for metric in table["metrics"]].index("Schedule")
    lines = {line["kernel"]: line["cells"][column] for group in table["groups"] for line in group["lines"]}
    assert lines["torch_sdpa"]["text"] == "6" and lines["cute_sm90"]["text"] == "none"


def test_measured_insights_stay_in_their_rows(gpu):
    (table, *_) = tables(compare(sample.evidence(gpu=True)))
    assert {i["rule"][0] for box in table["common"] for i in box["insights"]} == {"S"}
    assert all("M1" in {i["rule"] for i in group["insights"]} for group in table["groups"])


def test_static_figures_and_bounds_are_said_to_be_such(none):
    body = none[none.index('<table class="data pairs') :]
    cell = re.search(r'<td class="n static" data-v="255">255<span class="s" title="static">s</span></td>', body)
    assert cell
    assert re.search(
        r'<td class="n static" data-v="[\d.]+">≥ [\d.]+<span class="s" title="static">s</span><sup>1</sup>', body
    )


def test_every_missing_cell_has_a_note(gpu):
    for table in re.findall(r'<table class="data pairs.*?</ol>', gpu, flags=re.DOTALL):
        notes = table[table.index("</table>") :].count("<li>")
        marks = [int(n) for n in re.findall(r"<sup>(\d+)</sup>", table)]
        assert set(marks) == set(range(1, notes + 1))
        assert not re.search(r'<td class="n missing"[^>]*>none</td>', table)
    assert not re.search(r"<td[^>]*>\s*</td>", gpu)


def test_simulated_checks_are_never_called_passed(none):
    text = Page(none).text
    assert "checked by simulation (ptxsim, no GPU; 1 schedule: random; seeds 3, 4)" in text
    assert "0 of 4, 1 by simulation" in text
    assert not re.search(r"\bpassed\b(?! on hardware)", text)


def test_cards_tell_checks_recorded_from_those_made_here(gpu, tmp_path):
    here = "sm_90a: checked on NVIDIA H200 (seeds 0, 1): 16 of 16 checks within tolerance, 8 workloads"
    text = Page(gpu).text
    assert here in text and here.replace("checked", "recorded: checked", 1) in text
    evidence = sample.evidence(recorded=True)
    failed = evidence.recorded["recorded/h200/results/correctness/mla_decode/cutile/sm_90a/bf16/b1_q1_s1024_bf16.json"]
    failed |= {"status": "failed", "reason": "out of memory", "metrics": None}
    text = Page(render(contents(evidence, tmp_path))).text
    assert here.replace("sm_90a: ", "sm_90a: recorded: ") in text and "sm_90a: checked" not in text
    assert "recorded: checked on NVIDIA H200 (seeds 0, 1): 14 of 14 checks" in text
    assert "✕ failed b1_q1_s1024_bf16: out of memory" in text


def test_recorded_and_live_devices_are_labelled(gpu):
    text = Page(gpu).text
    assert "measured here on NVIDIA H200" in text
    assert "recorded on NVIDIA H200 (2026-11-19, commit abcdef123456)" in text
    assert "PyTorch torch_sdpa" in text


def test_compilers_words_are_quoted_and_escaped(none):
    assert "<b>tile</b>" not in none
    assert html.escape(sample.COMPILER_SAYS, quote=False) in none
    assert "&lt;as used&gt;" in none


def test_everything_given_is_escaped(tmp_path):
    evidence = sample.evidence(gpu=True)
    bad = "<script>alert(1)</script>"
    arch = sample.arch(gpu=True)
    arch["devices"][0]["name"] = bad
    builds = copy.deepcopy(evidence.builds)
    for entry in builds.values():
        entry["compilers"][bad] = bad
        entry["notes"] = [bad]
        entry["variant"]["params"][bad] = bad
        entry["files"] = {f"{bad}.ptx": "0" * 64}
    figures = copy.deepcopy(evidence.inspected)
    for entry in figures.values():
        entry["functions"][0]["symbol"] = bad
    page = render(contents(sample.replace(evidence, builds=builds, inspected=figures), tmp_path, arch=arch))
    assert bad not in page
    assert html.escape(bad) in page
    Page(page)


def test_artifacts_are_linked_relative_to_the_page(none):
    links = Page(none).links
    assert "compile/mla_decode/cutlass_fp16/sm_100a/fp16/kernel.ptx" in links
    assert not [link for link in links if link.startswith("/") or link.startswith("file:")]


def test_provenance(none):
    text = Page(none).text
    for words in ("abc1234", "nvidia-cutlass-dsl 4.8.1", "cuda-tile 1.7.0", "Seeds 3, 4", "snakemake --cores 1"):
        assert words in text


def test_rules_are_listed_and_insights_name_them(gpu):
    comparison = compare(sample.evidence(gpu=True))
    text = Page(gpu).text
    for rule in comparison["rules"]:
        assert f'id="rule-{rule["id"]}"' in gpu
        assert rule["condition"] in text
    assert "M1 cute_sm90 is" in text


def test_profiles_show_bottleneck_and_opportunities(gpu):
    text = Page(gpu).text
    assert "Bottleneck: compute" in text
    assert "Warps wait for <memory>" in text  # as text, that is, escaped in the page
    assert "long scoreboard 0.4" in text


def test_pictures_are_inside_with_their_text(none):
    assert none.count('<svg class="picture" role="img"') == 3
    assert "<desc>Roofline of mla_decode." in none
    assert "Not drawn" in none and "nothing was measured" in none


def test_default_matrix_stays_small(tmp_path):
    sweep = sample.workloads((1, 4, 16, 32, 64, 128), (1024, 4096, 8192, 16384))
    write_report(contents(sample.evidence(sweep, gpu=True, recorded=True), tmp_path), tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 2_000_000


@pytest.mark.parametrize(
    ("counts", "text"),
    [((4, 4, 0, 0), "4 of 4"), ((4, 3, 1, 0), "1 of 4 failed"), ((4, 0, 0, 2), "0 of 4, 2 by simulation"),
     ((0, 0, 0, 0), "not asked"), ((4, 0, 0, 0), "0 of 4")],
)  # fmt: skip
def test_states_have_words(counts, text):
    found = state(dict(zip(("expected", "ok", "failed", "simulated"), counts, strict=True)))
    assert found["text"] == text and found["mark"]


def test_signed():
    assert (signed(2, "2"), signed(-2, "2"), signed(0, "0")) == ("+2", "\N{MINUS SIGN}2", "±0")


SCRIPT = """
<script>
(function () {
  var out = {};
  var table = document.querySelector("table.pairs");
  function first(n) {
    return Array.from(table.tBodies).filter(function (b) { return !b.hidden; }).slice(0, n).map(function (b) {
      return Number(b.rows[Number(table.dataset.line || 0)].querySelector("td.n").dataset.v);
    });
  }
  var head = Array.from(table.tHead.rows[0].cells).find(function (c) { return /^Duration/.test(c.textContent); });
  out.keyboard = head.querySelector("button").tabIndex === 0;
  head.querySelector("button").click();
  out.rising = first(99); out.ariaUp = head.getAttribute("aria-sort");
  head.querySelector("button").click();
  out.falling = first(99); out.ariaDown = head.getAttribute("aria-sort");
  var select = table.parentNode.previousElementSibling.querySelector("select");
  select.value = "1"; select.dispatchEvent(new Event("change"));
  out.cute = first(99);
  var input = table.parentNode.previousElementSibling.querySelector("input");
  input.value = "B32 fp16 tilegym"; input.dispatchEvent(new Event("input"));
  out.filtered = Array.from(table.tBodies).filter(function (b) { return !b.hidden; }).map(function (b) {
    return b.rows[0].cells[0].textContent + " " + b.rows[0].cells[1].textContent.trim().replace(/\\s+/g, " ");
  });
  out.shown = input.closest(".tools").querySelector("output").textContent;
  var plain = document.querySelector("#ran table.sortable");
  plain.tHead.rows[0].cells[0].querySelector("button").click();
  out.plain = Array.from(plain.tBodies[0].rows, function (r) { return r.cells[0].textContent; });
  out.loads = performance.getEntriesByType("resource").map(function (r) { return r.name; })
    .filter(function (name) { return !/^data:/.test(name); });
  out.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  var name = table.querySelector("th[scope=row]");
  name.append("_with_a_rather_long_name");
  out.cut = table.parentNode.scrollWidth > table.parentNode.clientWidth;
  name.lastChild.remove();
  var link = table.querySelector("td.insight a.rule[href*=said]");
  location.hash = link.hash;
  window.dispatchEvent(new Event("hashchange"));
  out.opened = document.getElementById(link.hash.slice(1)).closest("details.common").open;
  out.errors = window.seen;
  document.title = "DONE" + JSON.stringify(out);
})();
</script>
</body>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed here; CI installs it")
@pytest.mark.parametrize("width", [1280, 520])  # headless Chromium makes no narrower window
def test_in_a_browser(gpu, tmp_path, width):
    import json

    watch = "<script>window.seen = []; window.onerror = function (m) { window.seen.push(m); };</script></head>"
    page = gpu.replace("</head>", watch, 1).replace("</body>", SCRIPT, 1)
    (tmp_path / "page.html").write_text(page)
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *(f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900"),
            *("--enable-logging=stderr", "--dump-dom", (tmp_path / "page.html").as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=180,
    )
    found = re.search(r"<title>DONE(.*?)</title>", done.stdout)
    assert found, done.stderr[-2000:]
    out = json.loads(html.unescape(found.group(1)))
    assert out["errors"] == [] and "CONSOLE" not in done.stderr
    assert out["loads"] == []
    assert out["keyboard"]
    assert (out["ariaUp"], out["ariaDown"]) == ("ascending", "descending")
    assert len(out["rising"]) > 8 and out["rising"] == sorted(out["rising"])
    assert out["falling"] == sorted(out["rising"], reverse=True)
    assert out["cute"] == sorted(out["cute"], reverse=True) and out["cute"] != out["falling"]
    assert sorted(out["filtered"]) == ["b32_q1_s1024_fp16 cuTile tilegym", "b32_q1_s8192_fp16 cuTile tilegym"]
    assert out["shown"] == "2 of 16 shown"
    assert out["plain"] == sorted(out["plain"])
    assert not out["wide"]
    assert not out["cut"] or width < 1280  # the whole table, insights too, fits a laptop's window
    assert out["opened"]
