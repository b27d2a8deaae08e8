"""The paper as data: its tables, the runs behind them, and their numbers beside ours."""

from ndr.paper.experiments import TABLES, PaperTable, Plan, Run, open_table, plan
from ndr.paper.far import far_page
from ndr.paper.page import results_page
from ndr.paper.render import FORMATS, render
from ndr.paper.results import Result, collect, read_results
from ndr.paper.tables import Cell, Filled, fill

__all__ = [
    "FORMATS",
    "TABLES",
    "Cell",
    "Filled",
    "PaperTable",
    "Plan",
    "Result",
    "Run",
    "collect",
    "far_page",
    "fill",
    "open_table",
    "plan",
    "read_results",
    "render",
    "results_page",
]
