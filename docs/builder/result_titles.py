"""Titles of the pages in experiments/results, which are named after their study."""

import re

__all__ = ["RESULT_TITLES", "with_result_title"]

RESULT_TITLES = {
    "paper": "Every table of the paper, beside ours",
    "table1": "Table 1: all methods",
    "duplicates": "Copies of one random voter",
    "independent": "Independent random voters",
    "adversarial": "An adversarial voter",
    "ablation": "Ablation of WeaSEL",
    "labelme": "LabelMe: crowd methods",
    "music_genre": "Music genres: crowd methods",
    "sentiment_crowd": "Sentiment: crowd methods",
    "default": "The default on real data",
    "tasks": "The default on generated tasks",
    "families": "The default on families of tasks",
    "unseen_tables": "The default on unseen tables",
    "default_planted": "The default among planted voters",
    "few_labels": "What a few gold labels add",
    "rows_to_label": "Which rows to label",
    "rough_balance": "What a rough class balance is worth",
    "interval_coverage": "How often intervals hold",
    "committee_parts": "What each part of the default adds",
    "equilibrium": "Equilibrium of joint training",
    "better_features": "Better features",
    "embedded_features": "TF-IDF and sentence embeddings",
    "text_features": "TF-IDF or sentence embeddings",
    "input_kinds": "Other kinds of inputs",
    "spouse_lstm": "Spouse with an LSTM",
    "graph_encoder": "The graph encoder",
    "rule_methods": "ImplyLoss, ASTRA, DeepLogic",
    "judges": "Panels of language models",
    "with_votes": "Predictions that use votes",
    "ask_next": "Asking a crowd again",
    "crowd_confidence": "Confidences of crowd labels",
    "crowd_sizes": "Label models by size of crowd, and features",
    "blind_crowds": "Crowd methods without gold",
    "suggest": "Suggested labeling functions",
    "suggested_precision": "Precision of suggested functions",
    "multilabel": "Several labels for one item",
    "spans": "Spans of text",
    "datasets": "The data sets",
}
"""The title of each page by the name of its file, in the order of the navigation."""


def with_result_title(markdown: str, name: str) -> str:
    """Return a page of results under its title instead of the name of its study.

    >>> with_result_title("# table1", "table1")
    '# Table 1: all methods'
    """
    title = RESULT_TITLES.get(name, name)
    return re.sub(r"\A# .*", f"# {title}", markdown)
