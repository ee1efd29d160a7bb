"""Pages of anatomy and of learning in headless Chromium.

Narrow and wide, dark and light, and on paper.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from test_learn import GOALS

from anatomy_records import record_of
from browser import CHROMIUM, FRAME, chromium
from cutesnake.model.record import convert
from cutesnake.model.records.common import Variant
from cutesnake.report.learn.page import Asked, render
from cutesnake.stages.anatomy import page

SCRIPT = """
<script>
window.onload = function () {
  document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  var out = {
    wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
    width: window.innerWidth,
    loads: performance.getEntriesByType("resource").map(function (r) { return r.name; })
      .filter(function (name) { return !/^data:/.test(name); }),
    paper: getComputedStyle(document.body).backgroundColor,
    drawings: Array.from(document.querySelectorAll("svg")).filter(function (s) { return s.getBoundingClientRect().height > 20; }).length
  };
  parent.postMessage(JSON.stringify(out), "*");
};
</script></body>"""  # noqa: E501


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    result = convert("anatomy", record_of("tutorial_gemm/cutlass_0/sm_100a/fp16"), "it")
    asked = Asked("learn_path_a", GOALS, {"tutorial_gemm/cutlass_0": ("tutorial_gemm/cutlass_0/x/y", [])}, {}, [])
    why = f"sizes are constants; gemm_grouped/cutlass_sm90/sm_90a/{'_'.join(['g8_m128_n256_k512'] * 6)} is run instead"
    other = replace(result, variant=Variant("another", {}), watched=None, not_watched=why)
    return {
        "anatomy": page.render([result, other], Path("nowhere")),
        "learn": render(asked, {"tutorial_gemm/cutlass_0": result}, "learn"),
    }


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed here; CI installs it")
@pytest.mark.parametrize("name", ["anatomy", "learn"])
@pytest.mark.parametrize(("width", "dark"), [(400, False), (1280, True)])
def test_only_tables_and_pictures_scroll_sideways(pages, tmp_path, name, width, dark) -> None:
    (tmp_path / "page.html").write_text(pages[name].replace("</body>", SCRIPT, 1))
    (tmp_path / "frame.html").write_text(FRAME % width)
    options = (f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--window-size=1300,950", "--dump-dom")
    done = chromium(tmp_path, *options, (tmp_path / "frame.html").as_uri())
    result = re.search(r"<title>DONE(.*?)</title>", done.stdout)
    assert result, done.stderr[-1000:]
    out = json.loads(html.unescape(result.group(1)))
    assert out["width"] == width and not out["wide"] and out["loads"] == []
    assert out["paper"] == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    assert out["drawings"] >= (2 if name == "anatomy" else 0)


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None or shutil.which("pdftotext") is None, reason="Chromium or pdftotext is missing")
@pytest.mark.parametrize("name", ["anatomy", "learn"])
def test_it_can_be_printed(pages, tmp_path, name) -> None:
    (tmp_path / "page.html").write_text(pages[name])
    chromium(tmp_path, f"--print-to-pdf={tmp_path / 'page.pdf'}", (tmp_path / "page.html").as_uri())
    text = subprocess.run(["pdftotext", str(tmp_path / "page.pdf"), "-"], capture_output=True, text=True).stdout
    assert ("multi-stage pipeline" if name == "anatomy" else "CuTe DSL fundamentals") in text
    if name == "learn":  # nothing can be unfolded on paper
        replies = re.findall(r'<details class="answer"><summary>.*?</summary><p>(.*?)</p>', pages[name], re.DOTALL)
        printed = " ".join(text.split())
        assert len(replies) >= 3
        assert all(" ".join(html.unescape(reply).split())[:60] in printed for reply in replies)
