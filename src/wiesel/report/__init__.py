"""report.html: the steps and results of a run, as one self-contained file."""

from wiesel.report.contents import (
    BalanceRow,
    Curve,
    Disagreement,
    ErrorItem,
    ReportData,
    SliceRow,
    VoterRow,
)
from wiesel.report.sections import report_html, whole_page, write_report

__all__ = [
    "BalanceRow",
    "Curve",
    "Disagreement",
    "ErrorItem",
    "ReportData",
    "SliceRow",
    "VoterRow",
    "report_html",
    "whole_page",
    "write_report",
]
