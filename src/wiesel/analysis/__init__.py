"""Analyzes votes: what voters do, how they agree, and what is wrong with them."""

from wiesel.analysis.agreement import agreement
from wiesel.analysis.buckets import Buckets, disagreements, label_buckets
from wiesel.analysis.changes import changed_votes, consistent_votes, position_bias
from wiesel.analysis.findings import findings
from wiesel.analysis.panel import PanelReport, judge_panel
from wiesel.analysis.reliability import Reliability, reliability
from wiesel.analysis.summary import summarize
from wiesel.analysis.table import Table
from wiesel.analysis.workers import rank_workers

__all__ = [
    "Buckets",
    "PanelReport",
    "Reliability",
    "Table",
    "agreement",
    "changed_votes",
    "consistent_votes",
    "disagreements",
    "findings",
    "judge_panel",
    "label_buckets",
    "position_bias",
    "rank_workers",
    "reliability",
    "summarize",
]
