"""Contents of a report page from sample records, and a parser of a rendered page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import yaml

import sample
from cutesnake.model.paths import ROOT
from cutesnake.report.page import Contents
from loose import compare, draw_plots

UPSTREAM = yaml.safe_load((ROOT / "kernels" / "upstream.yaml").read_text())
VOID = {"wbr", "meta", "link", "br", "input", "img", "hr"}


def contents(evidence, folder, draw=False, front=True, **more):
    plots = draw_plots(evidence, folder)["pictures"] if draw else []
    comparison = compare(evidence)
    values = {
        "arch": sample.arch(gpu=any(s["ok"] for s in evidence.plan["stages"])),
        "evidence": evidence,
        "comparison": comparison,
        "plots": plots,
        "plot_folder": folder,
        "config": "targets: [sm_90a, sm_100a] # <as used>\n",
        "sweep": "kernels: [cutile, cute_sm90]\n",
        "upstream": UPSTREAM,
        "commit": "abc1234",
        "front": "mla_report.html",
        "is_front": front,
    }
    return Contents(**{**values, **more})


class Page(HTMLParser):
    """Structure and visible text of a page.

    Raises on a tag that is not closed in order.
    """

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.ids, self.links, self.loads, self.texts, self.heads = [], [], [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        result = dict(attributes)
        if "id" in result:
            self.ids.append(result["id"])
        if tag == "a":
            self.links.append(result["href"])
        self.loads += [result[key] for key in ("src", "srcset", "poster", "data") if key in result]
        if tag == "link":
            self.loads.append(result["href"])
        if tag == "th":
            self.heads.append(result.get("scope"))
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
            self.texts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", " ".join(self.texts))
