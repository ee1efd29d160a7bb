"""CuTe layouts and plots of them: `draw(layout)` works in a notebook too.

>>> from cutesnake.report.layouts import draw, parse
>>> draw("((32,4),(4,4)):((64,4),(16,1))", tiler=(16, 128))
"""

from cutesnake.report.layouts.algebra import Layout, Swizzle, make_layout_tv, make_ordered_layout, parse, zipped_divide
from cutesnake.report.layouts.plots import LayoutPlot, draw

__all__ = ["Layout", "LayoutPlot", "Swizzle", "draw", "make_layout_tv", "make_ordered_layout", "parse", "zipped_divide"]
