"""Plots are drawn where data exists, are deterministic, and leave colours to the page."""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from xml.etree import ElementTree

import pandas
import pytest

import sample
from cutesnake.report.palette import DARK, LIGHT, look, looks
from cutesnake.report.plot import style
from cutesnake.report.plot.data import merged
from cutesnake.report.plot.heat import Scale, heat_map
from cutesnake.report.plot.speedup import best_of_each, cell_text, colour_limit
from cutesnake.report.plot.style import WIDTH, NothingToShow, lay_out, short_sizes, to_svg
from cutesnake.report.plot.timeline import LONGEST_NAME, short_name
from cutesnake.report.plot.times import EDGE
from loose import draw_plots as plot
from loose import (
    draw_speedup,
    draw_timeline,
    draw_times,
    functions,
    kernel_looks,
    labels,
    sizes,
    thinned,
    typed,
    unsaid,
)
from loose import plotted_times as times

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Return record and folder of plots for an H200 and a recorded set."""
    folder = tmp_path_factory.mktemp("plot")
    sweep = sample.workloads((32,), (1024, 8192))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # matplotlib: a figure too small for what is in it
        return plot(sample.evidence(sweep, gpu=True, recorded=True), folder), folder


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory):
    """Return record, folder and evidence of plots without measurements, of kernels whose names need escapes."""
    evidence = sample.evidence()
    for entry in evidence.inspected.values():
        entry["kernel"] = f"<b>{entry['kernel']}&"
    folder = tmp_path_factory.mktemp("unmeasured")
    return plot(evidence, folder), folder, evidence


def test_everything_is_drawn_where_there_are_measurements(drawn):
    entry, folder = drawn
    assert [p["name"] for p in entry["pictures"] if not p["file"]] == []
    kinds = {p["name"].split("-")[0] for p in entry["pictures"]}
    assert kinds == {"roofline", "resources", "instructions", "times", "speedup", "timeline"}
    assert {p["file"] for p in entry["pictures"]} == {path.name for path in folder.glob("*.svg")}
    assert json.loads((folder / "pictures.json").read_text()) == entry


def test_measured_pictures_say_where_from(drawn):
    devices = [p["device"] for p in drawn[0]["pictures"] if p["name"].startswith("times-")]
    assert [(d["kind"], d["dates"]) for d in devices] == [(kind, ["2026-11-19"] * 2) for kind in ("live", "recorded")]


def test_pictures_are_svg_with_title_text_and_switchable_colours(drawn):
    entry, folder = drawn
    seen: set[str] = set()
    for figure in entry["pictures"]:
        text = (folder / figure["file"]).read_text()
        root = ElementTree.fromstring(text)
        assert root.tag == f"{SVG}svg" and root.get("role") == "img"
        assert root.find(f"{SVG}title").text == figure["title"]
        assert root.find(f"{SVG}desc").text == figure["alt"]
        assert "<metadata" not in text
        body = text[text.index("</style>") :]
        for role, colour in LIGHT.items():  # every use of a role's colour is a variable with it as the fallback
            assert body.count(colour) == body.count(f"var(--{role}, {colour})")
        assert "var(--ink" in body
        ids = re.findall(r'id="([^"]*)"', text)
        assert len(ids) == len(set(ids)) and not set(ids) & seen
        assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', text)) == set(ids)
        seen |= set(ids)


def test_same_input_gives_the_same_bytes(unmeasured, tmp_path):
    _, folder, evidence = unmeasured
    plot(evidence, tmp_path)
    drawn = sorted(path.name for path in folder.iterdir())
    assert len(drawn) == 4
    for name in drawn:
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()


def test_without_measurements_the_measured_pictures_have_a_reason(unmeasured):
    entry, folder, _ = unmeasured
    missing = {p["name"].split("-")[0]: p["reason"] for p in entry["pictures"] if not p["file"]}
    assert set(missing) == {"times", "speedup", "timeline"}
    assert all("nothing was measured" in reason for reason in missing.values())
    assert len(list(folder.glob("*.svg"))) == 3


def test_nothing_inspected_and_no_roofline(tmp_path):
    bare = sample.replace(sample.evidence(), inspected={}, roofline=[])
    reasons = {p["name"]: p["reason"] for p in plot(bare, tmp_path)["pictures"]}
    assert reasons["resources"] == "no build of this operator has static values"
    assert reasons["instructions"] == "no build of this operator has static values"
    assert "no device" in reasons["roofline"]


def test_an_operator_without_flops_has_no_roofline(tmp_path):
    copies = [{**row, "flops": 0, "intensity": 0.0} for row in sample.evidence().roofline]
    result = plot(sample.replace(sample.evidence(), measured={}, roofline=copies), tmp_path)["pictures"]
    reasons = {p["name"]: p["reason"] for p in result}
    assert "has no FLOPs" in reasons["roofline"]


def test_figures_that_are_not_known_are_drawn_as_such(tmp_path):
    evidence = sample.evidence()
    for entry in evidence.inspected.values():
        entry["functions"][0] |= {"dynamic_shared_bytes": None, "spill_bytes": None, "instructions": None}
    plots = {p["name"]: p for p in plot(evidence, tmp_path)["pictures"]}
    assert "smem/block not known, spills/thread not known" in plots["resources"]["alt"]
    assert plots["instructions"]["reason"] == "no build's instructions could be counted"


def test_names_of_kernels_are_escaped(unmeasured):
    text = (unmeasured[1] / "resources.svg").read_text()
    assert "&lt;b&gt;cutile" in text
    ElementTree.fromstring(text)


def test_times_take_the_fastest_variant_and_know_the_floor():
    evidence = sample.evidence(gpu=True)
    (source,) = typed(evidence).sources("sm_90a")
    table = times(evidence, source, "sm_90a")
    assert len(table) == 8 * 4  # workloads x kernels
    one = table[(table["kernel"] == "cutile") & (table["workload"] == "b32_s8192_bf16")].iloc[0]
    entry = evidence.measured["results/timing/blend/cutile/sm_90a/bf16/b32_s8192_bf16.json"]
    assert one["cold_us"] == entry["metrics"]["cold_us"]
    assert one["floor_us"] == typed(evidence).floor("b32_s8192_bf16", "sm_90a", "NVIDIA H200").floor_us
    with pytest.raises(NothingToShow):
        times(evidence, source, "sm_100a")


def test_builds_with_the_same_figures_share_a_line():
    table = functions(sample.evidence())
    assert table["variant"].tolist().count("bf16") == 4
    same = merged(table, ["registers_per_thread"])
    assert same["build"].tolist() == [
        "cutlass_fp16 · sm_100a · fp16",
        "cutile · sm_100a · 2 equal builds",
        "cute_sm90 · sm_90a · 2 equal builds",
        "cutile · sm_90a · 2 equal builds",
        "tilegym · sm_90a · 2 equal builds",
    ]
    table["registers_per_thread"] = range(len(table))
    assert len(merged(table, ["registers_per_thread"])) == len(table)


def test_pictures_draw_as_many_workloads_as_they_can_show(tmp_path, monkeypatch):
    evidence = sample.evidence(gpu=True)
    monkeypatch.setattr("cutesnake.report.plot.MOST_DRAWN", 3)
    few = thinned(evidence)
    every = list(evidence.plan["workloads"])
    assert list(few.workloads) == [every[0], every[(len(every) - 1) // 2], every[-1]]
    assert {row.workload for row in few.roofline} == set(few.workloads)
    drawn = [figure for figure in plot(evidence, tmp_path)["pictures"] if figure["file"]]
    assert drawn and all(
        p["caption"].endswith("3 of 8 workloads are shown, picked evenly from the sweep.") for p in drawn
    )
    monkeypatch.setattr("cutesnake.report.plot.MOST_DRAWN", 8)
    assert thinned(evidence) == typed(evidence)


def test_sizes_and_labels():
    evidence = sample.evidence()
    assert sizes(evidence) == ["length", "batch"]
    assert labels(evidence)["b32_s8192_bf16"] == "batch 32, length 8192"
    assert labels(evidence, brief=True) == labels(evidence) and unsaid(evidence) == ""
    evidence.plan["axis"]["label"] = "Length (tokens)"  # the unit is for the axis
    assert labels(evidence)["b32_s8192_bf16"] == "batch 32, Length 8192"


def test_brief_labels_leave_out_a_number_that_nearly_all_workloads_have():
    evidence = sample.evidence()
    for name, parameters in evidence.plan["workloads"].items():
        parameters |= {"heads": 16 if name == "b32_s8192_bf16" else 128}
    full, brief = labels(evidence), labels(evidence, brief=True)
    assert (
        full["b1_s8192_bf16"] == "batch 1, length 8192, heads 128" and brief["b1_s8192_bf16"] == "batch 1, length 8192"
    )
    assert brief["b32_s8192_bf16"] == "batch 32, length 8192, heads 16"
    assert unsaid(evidence) == " Unless a label says otherwise: heads 128."


@pytest.mark.parametrize(
    ("panels", "shape"), [(1, (1, 1)), (2, (1, 2)), (3, (1, 3)), (4, (2, 2)), (5, (2, 3)), (6, (2, 3)), (7, (3, 3))]
)
def test_panels_wrap_into_a_grid(panels, shape):
    figure, axes = lay_out(panels, (2, 1), (1, 1), "x", "y")
    assert (axes[0].get_gridspec().nrows, axes[0].get_gridspec().ncols) == shape
    assert len(axes) == panels and all(axis.get_visible() for axis in axes)
    assert sum(axis.get_xlabel() == "x" for axis in axes) == shape[1]
    assert figure.get_figwidth() == min(WIDTH, 1 + 2 * shape[1])


def test_sizes_are_short_where_all_are_binary():
    assert list(short_sizes([1024, 65536]).values()) == ["1k", "64k"]
    assert list(short_sizes([1000, 4096]).values()) == ["1,000", "4,096"]


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("tilegym_splitk_reduce", "tilegym_splitk_reduce"),
        (
            "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>>(int, T3)",
            "vectorized_elementwise_kernel",
        ),
        ("void at::native::<unnamed>::cunn_SoftMaxForwardReg<float>(float *)", "cunn_SoftMaxForwardReg"),
        ("kernel_cutlass_split_kernel_kernelsblendcute_sm90_kernelMla_object_at__CopyAtom_8", "split_kernel"),
        ("elementwise_add_kernel_cutlass_kernel_kernelselementwise_addcute_tensorptr_0", "elementwise_add_kernel"),
    ],
)
def test_names_of_device_functions_are_shortened(symbol, name):
    assert short_name(symbol) == name


def test_a_long_name_loses_its_middle():
    name = short_name("first_" + "x" * 60 + "_last")
    assert len(name) == LONGEST_NAME and name.startswith("first_") and name.endswith("_last") and "…" in name


def test_each_kernel_has_a_look_of_its_own_and_grey_is_pytorchs():
    result = kernel_looks(sample.evidence())
    assert len(set(result.values())) == len(result)
    assert [kernel for kernel, one in result.items() if one.role.startswith("torch")] == ["torch_sdpa"]


def test_a_kernels_look_does_not_depend_on_what_stands_beside_it():
    some = {f"kernel_{number}": ("cute", "cutile", "torch", "cuda", "new")[number % 5] for number in range(40)}
    every = looks(some)
    assert len(set(every.values())) == len(some)
    alone = {kernel: looks({kernel: dsl})[kernel] for kernel, dsl in some.items()}
    assert alone == {kernel: look(kernel, dsl) for kernel, dsl in some.items()}
    same = [kernel for kernel in some if every[kernel] == alone[kernel]]
    assert len(same) > 30  # the others would have looked like another kernel: they differ by their marker only
    assert all(every[kernel].role == alone[kernel].role for kernel in some)
    assert looks(dict(reversed(some.items()))) == every


def marks(axis):
    """(place, row, filled) of each kernel's mark in a plot of durations."""
    points = [line for line in axis.lines if line.get_gid()]
    return [(line.get_xdata()[0], round(line.get_ydata()[0]), line.get_fillstyle() == "full") for line in points]


def test_duration_has_a_row_per_workload_and_distinguishable_marks_within_20_percent():
    evidence = sample.evidence(gpu=True)
    (source,) = typed(evidence).sources("sm_90a")
    factors = {"cutile": 1.0, "tilegym": 1.1, "cute_sm90": 1.2, "torch_sdpa": 1.2}
    for entry in evidence.measured.values():
        if entry["stage"] == "timing":
            entry["metrics"]["cold_us"] = 50.0 * factors[entry["case"]["kernel"]]
    drawing = draw_times(evidence, source, "sm_90a")
    assert [axis.get_title(loc="left") for axis in drawing.figure.axes] == ["bf16", "fp16"]
    drawing.figure.canvas.draw()
    for axis in drawing.figure.axes:
        assert "log scale" in axis.get_xlabel()
        assert len(marks(axis)) == 4 * 4  # workloads x kernels
        assert len(axis.get_yticklabels()) == 4
        points = [
            axis.transData.transform((line.get_xdata()[0], line.get_ydata()[0])) / drawing.figure.dpi * 72
            for line in axis.lines
            if line.get_gid() and round(line.get_ydata()[0]) == 0
        ]
        apart = [abs(a - b).max() for place, a in enumerate(points) for b in points[:place]]
        assert min(apart) > 4  # points; a mark is 6 wide
    handles = drawing.figure.legends[0].legend_handles
    assert len({handle.get_marker() for handle in handles}) == 4  # also in grey


def test_a_kernel_beyond_the_scale_is_hollow_at_the_edge_and_the_caption_says_so():
    evidence = sample.evidence(gpu=True)
    (source,) = typed(evidence).sources("sm_90a")
    for entry in evidence.measured.values():
        if entry["stage"] == "timing":
            entry["metrics"]["cold_us"] = 50.0
    assert "Hollow" not in draw_times(evidence, source, "sm_90a").caption
    slow = evidence.measured["results/timing/blend/torch_sdpa/sm_90a/bf16/b32_s8192_bf16.json"]
    slow["metrics"]["cold_us"] *= 100
    drawing = draw_times(evidence, source, "sm_90a")
    assert "Hollow" in drawing.caption
    result = [mark for axis in drawing.figure.axes for mark in marks(axis)]
    assert [mark[0] for mark in result if not mark[2]] == [EDGE] and max(mark[0] for mark in result) == EDGE


def test_workloads_that_no_axis_tells_apart_have_rows_of_their_own():
    evidence = sample.evidence(gpu=True)
    (source,) = typed(evidence).sources("sm_90a")
    for name, parameters in evidence.plan["workloads"].items():
        parameters["form"] = "ragged" if name == "b32_s8192_bf16" else "full"
    axis = draw_times(evidence, source, "sm_90a").figure.axes[0]
    names = [label.get_text() for label in axis.get_yticklabels()]
    assert len(set(names)) == len(names) == 4 and sum("ragged" in name for name in names) == 1


def test_a_mark_shows_its_values_on_hover(drawn):
    entry, folder = drawn
    for name, text in (("times", "cutile, length 8192: "), ("speedup", " ÷ "), ("roofline", "TFLOP/s")):
        result = [p for p in entry["pictures"] if p["name"].startswith(name)]
        for plot_ in result:
            root = ElementTree.fromstring((folder / plot_["file"]).read_text())
            titles = [title.text for mark in root.iter() for title in mark.findall(f"{SVG}title")][1:]
            assert sum(text in title for title in titles) > 1, name
    with pytest.raises(ValueError, match="3 titles for 2 marks"):
        figure, (axis,) = lay_out(1, (2, 2), (1, 1), "x", "y")
        style.tip(axis.plot([1, 2], [1, 2], "o")[0], "a", "b", "c")
        to_svg(style.Drawing(figure, "alt", "caption"), "name", "title")


def test_the_heat_map_compares_the_fastest_kernels_and_one_outlier_does_not_stretch_its_colours():
    rows = [("cutile", "cutile", 20.0), ("tilegym", "cutile", 10.0), ("a", "cute", 8.0), ("b", "cute", 16.0)]
    table = pandas.DataFrame(rows, columns=["kernel", "dsl", "cold_us"]).assign(workload="w", dtype="bf16")
    (pair,) = best_of_each(table).to_dict("records")
    assert (pair["kernel_cutile"], pair["kernel_cute"], pair["speedup"]) == ("tilegym", "a", 1.25)
    end = colour_limit(pandas.Series([1.1] * 30 + [1.3, 40.0]))
    assert end == 1.25
    assert [cell_text(ratio, end) for ratio in (0.5, 0.9, 1.01, 1.1, 40.0)] == [
        "⇐ 0.50",
        "← 0.90",
        "1.01",
        "1.10 →",
        "40.00 ⇒",
    ]
    assert colour_limit(pandas.Series([9.0, 9.0])) == 4.0


def test_a_heat_map_has_a_colour_bar_that_marks_its_ends_where_values_lie_outside():
    scale = Scale("PuOr", [0.5, 0.9, 1.1, 2.0], [0.5, 1, 2], "ratio")
    for value, extend in ((1.5, "neither"), (3.0, "max"), (0.1, "min")):
        values = pandas.DataFrame({"bf16": [1.0, value]}, index=["a", "b"])
        figure = heat_map(values.astype(str), values, scale, values.astype(str))
        (bar,) = [axis for axis in figure.axes if axis.get_xlabel() == "ratio"]
        assert bar._colorbar.extend == extend


def test_workloads_that_differ_in_no_number_have_labels_and_rows_of_their_own():
    evidence = sample.evidence(gpu=True)
    (source,) = typed(evidence).sources("sm_90a")
    rows = len(draw_speedup(evidence, source, "sm_90a").figure.axes[0].get_yticklabels())
    for name, parameters in evidence.plan["workloads"].items():
        parameters |= {"causal": name == "b1_s8192_bf16", "form": "ragged" if name == "b32_s8192_fp16" else "full"}
    result = labels(evidence)
    assert result["b1_s8192_bf16"] == f"{result['b1_s8192_fp16']}, causal"
    assert result["b32_s8192_fp16"] == f"{result['b32_s8192_bf16']}, form ragged"
    assert len(draw_speedup(evidence, source, "sm_90a").figure.axes[0].get_yticklabels()) == rows + 2


def test_timeline_has_a_panel_per_workload_and_leaves_pytorch_out():
    evidence = sample.evidence(gpu=True)
    (source,) = typed(evidence).sources("sm_90a")
    drawing = draw_timeline(evidence, source, "sm_90a")
    assert [axis.get_title(loc="left") for axis in drawing.figure.axes] == [
        f"batch 32, length {length}, {dtype}" for length in (1024, 8192) for dtype in ("bf16", "fp16")
    ]
    for axis in drawing.figure.axes:
        assert [text.get_text() for text in axis.get_yticklabels()] == ["tilegym", "cutile", "cute_sm90"]
        assert [patch.get_width() for patch in axis.patches] == [60.0, 8.0] * 3  # the last call's two launches
        assert {text.get_text() for text in axis.texts} == {"main_kernel 60.0 µs → combine 8.0 µs"}
    assert "PyTorch's baseline, 2 launches per call, is not shown." in drawing.caption
    assert "shows a single call" in drawing.caption and "back-to-back" not in drawing.caption
    assert "torch" not in drawing.alt


def test_of_calls_back_to_back_the_first_is_drawn_and_the_caption_says_so():
    # As the recorded H200 set has it at batch 32. The second call's 120 us count 51 us of waiting for the first.
    evidence = sample.evidence(gpu=True)
    for entry in evidence.measured.values():
        if entry["stage"] == "nsys":
            launch = entry["metrics"]["kernels"][0]
            first = launch | {"call": 0, "start_us": 14.9, "duration_us": 70.5}
            waiting = launch | {"call": 1, "start_us": 28.5, "duration_us": 120.3}
            entry["metrics"] |= {"kernels": [first, waiting]}
            del entry["metrics"]["spacing"], entry["metrics"]["timing_check"]
    (source,) = typed(evidence).sources("sm_90a")
    drawing = draw_timeline(evidence, source, "sm_90a")
    assert {patch.get_width() for axis in drawing.figure.axes for patch in axis.patches} == {70.5}
    assert "Of back-to-back calls, the plot shows the first" in drawing.caption
    assert "120.3" not in drawing.alt


def test_a_launch_that_began_beside_the_one_before_is_drawn_and_said_to():
    evidence = sample.evidence(gpu=True)
    for entry in evidence.measured.values():
        if entry["stage"] == "nsys":
            entry["metrics"]["kernels"][3] |= {"start_us": 176.0, "duration_us": 9.0}  # 4 us before the other's end
    (source,) = typed(evidence).sources("sm_90a")
    drawing = draw_timeline(evidence, source, "sm_90a")
    axis = drawing.figure.axes[0]
    assert [round(patch.get_height(), 6) for patch in axis.patches] == [0.42, 0.21] * 3
    assert {text.get_text() for text in axis.texts} == {"main_kernel 60.0 µs → combine 9.0 µs (4.0 overlap)"}


def test_long_names_and_many_launches_leave_room_for_the_timeline():
    evidence = sample.evidence(gpu=True)
    for entry in evidence.measured.values():
        if entry["stage"] == "nsys":
            launch = entry["metrics"]["kernels"][0]
            more = [launch | {"name": f"name_{n}_" + 900 * "y", "start_us": 100.0 * n} for n in range(12)]
            entry["metrics"]["kernels"] = [k | {"call": 1} for k in more]
    (source,) = typed(evidence).sources("sm_90a")
    drawing = draw_timeline(evidence, source, "sm_90a")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        to_svg(drawing, "timeline", "a title")
    assert {text.get_text() for axis in drawing.figure.axes for text in axis.texts} == {"12 launches, 1080.0 µs in all"}
    assert len(drawing.alt) < 2000


def test_a_picture_is_what_matplotlib_makes_of_it_when_it_draws_twice(monkeypatch):
    """Once into nothing, only to lay it out: that drawing is left out."""

    def figure() -> str:
        figure, axes = lay_out(2, (3.0, 2.0), (1.0, 1.0), "kv length", "µs")
        for number, axis in enumerate(axes):
            axis.plot([1, 10 ** (number + 3)], [0, 7.25], label=f"kernel {number}")
            axis.set_title("a title that takes a line of its own")
        axes[0].set_xscale("log")
        figure.legend(loc="outside lower center")
        return to_svg(style.Drawing(figure, "alt", "caption"), "name", "title")

    once = figure()
    monkeypatch.setattr(style, "_laid_out_only", contextlib.nullcontext)
    assert once == figure()
    assert once.count("kernel 1") == 1


def test_a_heat_map_of_one_kernel_fits_a_phone_and_breaks_names_between_sizes():
    name = "batch 4, sequence length 4096, heads 32, kv heads 8, causal"
    values = pandas.DataFrame({"cutlass_sm90 over tilegym bf16": [1.5]}, index=[name])
    figure = heat_map(values.astype(str), values, Scale("PuOr", [0.5, 1, 2], [1], "ratio"), values.astype(str))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "batch 4, sequence length 4096,\nheads 32, kv heads 8, causal"
    ]
    root = ElementTree.fromstring(to_svg(style.Drawing(figure, "alt", "caption"), "name", "title"))
    assert float(root.get("width").removesuffix("pt")) / 72 * 96 <= 368


def test_pictures_are_no_wider_than_the_page(drawn):
    entry, folder = drawn
    for figure in entry["pictures"]:
        root = ElementTree.fromstring((folder / figure["file"]).read_text())
        assert float(root.get("width").removesuffix("pt")) <= 72 * WIDTH + 20


@pytest.mark.parametrize(("colours", "paper"), [(LIGHT, "#ffffff"), (DARK, "#14171b")])
def test_colours_stand_out_from_the_paper(colours, paper):
    """WCAG 2.2: 3:1 for graphics, 4.5:1 for text."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for role, colour in colours.items():
        high, low = sorted((luminance(colour), luminance(paper)), reverse=True)
        contrast = (high + 0.05) / (low + 0.05)
        wanted = {"ink": 4.5, "soft": 4.5, "line": 1.0}.get(role, 3.0)
        assert contrast >= wanted, (role, contrast)


def test_a_driver_s_name_finds_its_floor_by_the_patterns_of_the_device_list():
    evidence = sample.evidence()
    for row in evidence.roofline:
        row["match"] = ["NVIDIA H100 80GB HBM3"] if row["device"] == "H200" else ["NVIDIA B200"]
    assert typed(evidence).floor("b32_s8192_bf16", "sm_90a", "NVIDIA H100 80GB HBM3").device == "H200"
    assert typed(evidence).floor("b32_s8192_bf16", "sm_90a", "NVIDIA H200 NVL") is None


def test_rectangles_that_look_alike_and_follow_each_other_are_one_path() -> None:
    """As matplotlib writes bars, in both orders of their corners."""
    rectangle = '<path d="M 1.5 2 \nL 1.5 4 \nL 3 4 \nL 3 2 \nz\n" style="fill: {}"/>\n'
    other = '<path d="M 5 2 \nL 7 2 \nL 7 4 \nL 5 4 \nz\n" style="fill: {}"/>\n'
    triangle = '<path d="M 5 2 \nL 7 2 \nL 7 4 \nz\n" style="fill: red"/>\n'
    drawn = rectangle.format("red") + other.format("red") + triangle + other.format("red") + rectangle.format("blue")
    assert style._joined_rectangles(drawn) == (
        '<path d="M1.5 2V4H3V2zM5 2V4H7V2z" style="fill: red"/>\n'
        + triangle
        + '<path d="M5 2V4H7V2z" style="fill: red"/>\n<path d="M1.5 2V4H3V2z" style="fill: blue"/>\n'
    )
    clear = rectangle.format("red; opacity: 0.5")
    assert style._joined_rectangles(clear + clear).count("<path") == 2  # where they overlap both are seen
