"""What to do next: labeling functions to write, rows to label, votes to blame, items to inspect."""

from wiesel.guidance.asking import Source, where_to_ask
from wiesel.guidance.end_preview import EndPreview, preview_end_model
from wiesel.guidance.feature_findings import (
    Blame,
    Cluster,
    blame,
    feature_findings,
    uncovered_clusters,
)
from wiesel.guidance.labeling_order import rows_to_label
from wiesel.guidance.lf_preview import ItemFacts, ItemFilter, LabelFacts, LFPreview, preview_lf
from wiesel.guidance.prompted_rules import rules_from_model
from wiesel.guidance.suggesting import Suggestion, Suggestions, lfs_from_selection, suggest_lfs
from wiesel.guidance.terms import TermIndex

__all__ = [
    "Blame",
    "Cluster",
    "EndPreview",
    "ItemFacts",
    "ItemFilter",
    "LFPreview",
    "LabelFacts",
    "Source",
    "Suggestion",
    "Suggestions",
    "TermIndex",
    "blame",
    "feature_findings",
    "lfs_from_selection",
    "preview_end_model",
    "preview_lf",
    "rows_to_label",
    "rules_from_model",
    "suggest_lfs",
    "uncovered_clusters",
    "where_to_ask",
]
