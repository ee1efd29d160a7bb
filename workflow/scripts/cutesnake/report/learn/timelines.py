"""Predicted timelines on pages for learners."""

import re
from typing import Any

from markupsafe import Markup

_SYMBOL = re.compile(r"\bkernel_\w{30,}")


def drawn(predicted: Any, kernel: str, name: str) -> dict[str, Any]:
    """Return a prediction's `svg` and `caption`, or `missing`; `name`: unique on a page."""
    from cutesnake.report.plot.pipeline import draw_timeline
    from cutesnake.report.plot.style import NothingToShow, to_svg

    if predicted.status != "ok" or predicted.metrics is None:
        return {"missing": _SYMBOL.sub("the kernel", predicted.reason or predicted.status)}
    try:
        drawing = draw_timeline(kernel, predicted.metrics, predicted.case.workload)
    except NothingToShow as error:
        return {"missing": str(error)}
    return {"svg": Markup(to_svg(drawing, f"timeline-{name}", "Predicted timeline")), "caption": drawing.caption}
