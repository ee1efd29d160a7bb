"""The pages in headless Chromium: wide and narrow, light and dark.

Controls work, nothing is loaded, nothing is cut.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import subprocess

import pytest

import sample
from browser import CHROMIUM, FRAME, chromium
from cutesnake.analysis.verdict.verdicts import verdicts
from cutesnake.report.html import brief
from loose import compare, render, typed
from report_pages import contents

SCRIPT = """
<script>
(function () {
  var out = {};
  function levels(colour) { return colour.match(/[\\d.]+/g).map(Number); }
  function light(colour) {
    var part = levels(colour).slice(0, 3).map(function (v) {
      v /= 255; return v <= 0.04045 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  }
  function paper(node) {
    for (; node; node = node.parentElement) {
      var colour = getComputedStyle(node).backgroundColor, found = levels(colour);
      if (found.length === 3 || found[3] === 1) return colour;
    }
    return "rgb(255, 255, 255)";
  }
  function texts() {
    return Array.from(document.querySelectorAll("body *")).filter(function (node) {
      if (node.closest("svg, script, noscript, style")) return false;
      return Array.from(node.childNodes).some(function (one) { return one.nodeType === 3 && one.data.trim(); });
    });
  }
  // Texts with a contrast below 4.5:1.
  function dim() {
    return texts().filter(function (node) {
      var ink = light(getComputedStyle(node).color), back = light(paper(node));
      return (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05) < 4.5;
    }).map(function (node) { return node.tagName + "." + node.className + ": " + node.textContent.slice(0, 40); });
  }
  // Headings, labels and buttons wider than their box; insights of a folded row end with a mark.
  function clipped() {
    return Array.from(document.querySelectorAll("h1, h2, h3, h4, th, button, summary, .box p, .tag")).filter(
      function (node) { return node.clientWidth && node.scrollWidth > node.clientWidth + 1; }
    ).map(function (node) { return node.tagName + "." + node.className + ": " + node.textContent.slice(0, 40); });
  }
  var table = document.querySelector("table.folded");
  var tools = table.closest("details").querySelector("div.tools");
  function bodies() { return Array.from(table.tBodies).filter(function (b) { return !b.hidden; }); }
  function figure(b) { return Number(b.rows[0].querySelector("td.n").dataset.v); }
  function figures() { return bodies().map(figure); }
  function unfolded() { return table.querySelectorAll("tr.line:not([hidden])").length; }
  out.folded = unfolded();
  table.querySelector("button.fold").click();
  out.one = unfolded(); out.lines = table.tBodies[0].rows.length - 1;
  var buttons = Array.from(tools.querySelectorAll("button"));
  var all = buttons.find(function (b) { return b.textContent === "Unfold all"; });
  all.click(); out.all = unfolded(); out.parts = table.querySelectorAll("tr.line").length;
  out.cut = table.parentNode.scrollWidth > table.parentNode.clientWidth;
  all.click(); out.none = unfolded();
  var heads = Array.from(table.tHead.rows[1].cells);
  var head = heads.find(function (c) { return /^CuTe/.test(c.textContent); });
  out.keyboard = head.querySelector("button").tabIndex === 0;
  head.querySelector("button").click();
  out.rising = figures(); out.ariaUp = head.getAttribute("aria-sort");
  head.querySelector("button").click();
  out.falling = figures(); out.ariaDown = head.getAttribute("aria-sort");
  var input = tools.querySelector("input");
  input.value = "B32 fp16 tilegym"; input.dispatchEvent(new Event("input"));
  out.filtered = bodies().map(function (b) { return b.rows[0].querySelector("th code").textContent; });
  out.shown = tools.querySelector("output").textContent;
  out.csv = window.cutesnake.csvOf(table);
  out.copies = document.querySelectorAll("button.copy").length;
  out.tables = document.querySelectorAll("table.filterable").length;
  out.summary = window.cutesnake.csvOf(document.querySelector("table.summary"));
  var plain = document.querySelector("#ran table.sortable");
  plain.tHead.rows[0].cells[0].querySelector("button").click();
  out.plain = Array.from(plain.tBodies[0].rows, function (r) { return r.cells[0].textContent; });
  out.loads = performance.getEntriesByType("resource").map(function (r) { return r.name; })
    .filter(function (name) { return !/^data:/.test(name); });
  out.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  out.width = window.innerWidth;
  var reason = document.querySelector(".why a.reason");
  document.getElementById("reasons").open = false;
  location.hash = reason.hash;
  window.dispatchEvent(new Event("hashchange"));
  out.reason = document.getElementById("reasons").open;
  var row = table.tBodies[2];
  location.hash = row.querySelector("a.perma").hash;
  window.dispatchEvent(new Event("hashchange"));
  out.linked = row.querySelectorAll("tr.line:not([hidden])").length === row.rows.length - 1;
  out.paper = getComputedStyle(document.body).backgroundColor;
  function bottom(selector) {
    var found = document.querySelector(selector);
    return found ? found.getBoundingClientRect().bottom + window.scrollY : null;
  }
  out.answer = bottom(".box .big"); out.why = bottom("#why .why-sides, #why > p"); out.cost = bottom("#cost table");
  out.screens = document.documentElement.scrollHeight / 900;
  function box(selector) { return document.querySelector(selector).getBoundingClientRect(); }
  var why = box("#why"), cost = box("#cost table");
  out.apart = why.right <= cost.left || why.bottom <= cost.top;
  out.hints = Array.from(document.querySelectorAll("div.wide")).filter(function (frame) {
    var cut = frame.clientWidth && frame.scrollWidth > frame.clientWidth + 1;
    return cut && !(frame.previousElementSibling && frame.previousElementSibling.matches("p.more"));
  }).length;
  var frame = document.querySelector("figure .wide"), marks = frame.querySelectorAll("svg :not(svg) > title");
  function press(key) {
    frame.dispatchEvent(new KeyboardEvent("keydown", { key: key, cancelable: true }));
    return frame.nextElementSibling.textContent;
  }
  out.marks = [press("ArrowRight"), press("ArrowRight"), press("ArrowLeft"), press("ArrowLeft")];
  out.titles = [0, 1, 0, marks.length - 1].map(function (place) { return marks[place].textContent; });
  out.marked = frame.querySelectorAll(".at").length;
  out.errors = window.seen;
  document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  out.dim = dim(); out.clipped = clipped();
  // What looks clickable takes the keyboard's focus, and shows it.
  var reach = "a[href], button, summary, input, select, [tabindex='0']";
  out.unreached = Array.from(document.querySelectorAll("body *")).filter(function (node) {
    return getComputedStyle(node).cursor === "pointer" && !node.closest(reach + ", label");
  }).map(function (node) { return node.tagName + "." + node.className; });
  out.unmarked = Array.from(document.querySelectorAll(reach)).filter(function (node) {
    if (!node.getClientRects().length || node.closest("svg")) return false;
    node.focus({ focusVisible: true });
    return document.activeElement !== node || getComputedStyle(node).outlineStyle === "none";
  }).map(function (node) { return node.tagName + "." + node.className + ": " + node.textContent.slice(0, 40); });
  out.wideUnfolded = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  parent.postMessage(JSON.stringify(out), "*");
})();
</script>
</body>"""

PAGED = """
<script>
(function () {
  var out = { errors: window.seen };
  var holder = document.querySelector("div.paged"), tools = holder.previousElementSibling;
  if (tools.matches("p.more")) tools = tools.previousElementSibling;
  holder.closest("details").open = true;
  function cells(place) {
    return Array.from(holder.querySelectorAll("tbody tr"), function (r) { return r.cells[place].textContent; });
  }
  function rows() { return cells(0); }
  function press(text) {
    Array.from(tools.querySelectorAll("button")).find(function (b) { return b.textContent === text; }).click();
  }
  out.first = rows(); out.count = tools.querySelector("output").textContent;
  press("Next"); out.second = rows();
  press("Next"); press("Next"); out.last = rows();
  press("Previous"); out.back = rows();
  holder.querySelectorAll("thead button")[1].click(); out.sorted = cells(1);
  var input = tools.querySelector("input");
  input.value = "b32 FP16"; input.dispatchEvent(new Event("input"));
  out.filtered = rows(); out.left = tools.querySelector("output").textContent;
  parent.postMessage(JSON.stringify(out), "*");
})();
</script>
</body>"""


def shown(page: str, folder, width: int, dark: bool, script: str = SCRIPT) -> dict:
    watch = "<script>window.seen = []; window.onerror = function (m) { window.seen.push(m); };</script></head>"
    text = page.replace("</head>", watch, 1).replace("</body>", script, 1)
    (folder / "page.html").write_text(text)
    (folder / "frame.html").write_text(FRAME % width)
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    logged = ("--window-size=1300,950", scheme, "--enable-logging=stderr", "--dump-dom")
    done = chromium(folder, *logged, (folder / "frame.html").as_uri())
    result = re.search(r"<title>DONE(.*?)</title>", done.stdout)
    assert result, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr
    return json.loads(html.unescape(result.group(1)))


# What a simulated check counts and covers, with names as long as CuTe's kernels have.
NAME = "kernel_cutlass_split_kv_kernel_blackwellmlamla_decode_fp16"
COUNTED = ("global_read_bytes", "global_write_bytes", "global_read_unique_bytes", "global_write_unique_bytes")
MORE_COUNTED = ("warp_instructions", "mma_instructions", "mma_flops", "tma_instructions", "tma_bytes", "barrier_waits")
LAUNCH = {"kernel": NAME, "instructions": {"other": 4096}, **dict.fromkeys((*COUNTED, *MORE_COUNTED), 4096)}
RING = {"offset": 0, "stages": 2, "turns": 8, "least": 8, "waits": 8, "slept": 2, "room": True}
COVERED = {
    "kernel": NAME,
    "blocks": {"run": 39, "all": 70},
    "lines": {"run": 39, "all": 70, "missed": []},
    "rings": [RING],
    "loops": [],
    "items": 8,
    "notes": ["mbarriers at shared offset 272 to 296: one phase completed at most, so that the ring never wrapped"],
}
SIMULATED = {
    **{"launches_run": 1, "peak_memory_bytes": 1, "launches": [LAUNCH], "coverage": [COVERED, COVERED]},
    "cost": {"flops": 1, "bytes_read": 1, "bytes_written": 1},
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    evidence = sample.evidence(gpu=True, recorded=True)
    (checked,) = (entry for entry in evidence.measured.values() if entry["backend"] == "ptxsim")
    checked["metrics"]["simulated"] = SIMULATED
    decided = verdicts(typed(evidence), typed(compare(evidence)))
    return {
        front: brief(render(contents(evidence, folder, draw=True, front=front, verdicts=decided)))
        for front in (True, False)
    }


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed here; CI installs it")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False), (400, True)])
@pytest.mark.parametrize("front", [True, False])
def test_in_a_browser(pages, tmp_path, width, dark, front):
    out = shown(pages[front], tmp_path, width, dark)
    assert out["errors"] == [] and out["loads"] == []
    assert out["width"] == width
    assert not out["wide"] and not out["wideUnfolded"]  # tables and plots scroll sideways in frames of their own
    assert not out["cut"] or width < 1280  # the whole table, insights too, fits a laptop's window
    assert out["paper"] == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    assert out["answer"] < 900  # which DSL is faster stands within the first screen
    assert max(out["why"], out["cost"]) < 900 or width < 1280  # and so do why, and the cost
    assert out["apart"]
    assert out["screens"] <= 12 or width < 1280
    assert out["hints"] == 0 and out["dim"] == [] and out["clipped"] == []
    assert out["linked"]
    assert out["unreached"] == [] and out["unmarked"] == []
    assert out["folded"] == 0 and out["one"] == out["lines"] == 5  # four kernels, and insights
    assert out["all"] == out["parts"] == 8 * 5 and out["none"] == 0
    assert out["keyboard"] and (out["ariaUp"], out["ariaDown"]) == ("ascending", "descending")
    assert len(out["rising"]) == 8 and out["rising"] == sorted(out["rising"])
    assert out["falling"] == sorted(out["rising"], reverse=True)
    assert sorted(out["filtered"]) == ["b32_s1024_fp16", "b32_s8192_fp16"]
    assert out["shown"] == "2 of 8 shown"
    assert out["plain"] == sorted(out["plain"])
    assert out["reason"]
    assert out["marks"] == out["titles"] and out["marked"] == 1  # arrow keys show a plot's values


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed here; CI installs it")
def test_tables_are_copied_as_csv(pages, tmp_path):
    out = shown(pages[True], tmp_path, 1280, False)
    assert out["copies"] == out["tables"] > 2
    head, *lines = csv.reader(io.StringIO(out["csv"]))
    assert head[:4] == ["Workload", "CuTe, Cold, µs", "cuTile, Cold, µs", "faster, Cold"]
    assert {line[0] for line in lines} == {"b32_s1024_fp16", "b32_s8192_fp16"}  # what the filter leaves
    for _, cute, cutile, speedup, *_ in lines:
        assert float(speedup) == pytest.approx(float(cutile) / float(cute), rel=1e-3)
    head, *lines = csv.reader(io.StringIO(out["summary"]))
    assert all(len(line) == len(head) for line in lines) and {line[0] for line in lines} >= {"cutile", "cute_sm90"}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed here; CI installs it")
def test_a_table_of_many_workloads_is_shown_page_by_page(tmp_path, monkeypatch):
    monkeypatch.setattr("cutesnake.analysis.compare.selected_workloads.MOST_SHOWN", 2)
    evidence = sample.evidence(gpu=True)
    page = render(contents(evidence, tmp_path, draw=True)).replace("var PAGE = 50;", "var PAGE = 3;")
    out = shown(page, tmp_path, 1280, False, PAGED)
    every = list(typed(evidence).workloads)
    assert out["errors"] == []
    assert (out["first"], out["second"], out["last"], out["back"]) == (every[:3], every[3:6], every[6:], every[3:6])
    assert out["count"] == "1 to 3 of 8"
    times = [float(text) for text in out["sorted"]]
    assert times == sorted(times) and len(times) == 3
    assert sorted(out["filtered"]) == ["b32_s1024_fp16", "b32_s8192_fp16"] and out["left"] == "1 to 2 of 2"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None or shutil.which("pdftotext") is None, reason="Chromium or pdftotext is missing")
def test_a_page_is_printed_as_it_is_folded(pages, tmp_path):
    (tmp_path / "page.html").write_text(pages[True])
    chromium(tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}", (tmp_path / "page.html").as_uri())
    done = subprocess.run(["pdftotext", "-layout", str(tmp_path / "page.pdf"), "-"], capture_output=True, text=True)
    printed = " ".join(done.stdout.split())
    assert "H200 \N{MIDDLE DOT} measured" in printed
    assert "b32_s8192_fp16" in printed and "sm_100a, not measured" in printed  # rows, also of closed tables
    assert "folded on the screen are not printed" in printed
    for text in ("nvidia-cutlass-dsl 4.8.1", "Copy as CSV", "Scroll sideways"):  # provenance, and what needs a screen
        assert text not in printed
