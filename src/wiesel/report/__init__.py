"""report.html: what a run did and found, as one file that needs nothing else."""

from wiesel.report.contents import Curve, Disagreement, ReportData, VoterRow
from wiesel.report.page import report_html, write_report

__all__ = ["Curve", "Disagreement", "ReportData", "VoterRow", "report_html", "write_report"]
