"""Reads and writes rows, votes, answers and labels, in our formats and those of other tools."""

from wiesel.io.annotation import TOOLS, Annotations, read_annotations, write_predictions
from wiesel.io.answers import read_answers, read_gold
from wiesel.io.dataset import Dataset, Split
from wiesel.io.exchange import from_cleanlab, load_wrench, read_json, to_cleanlab
from wiesel.io.files import FORMATS, FilePath, existing_file, existing_folder, explained, replacing
from wiesel.io.hugging_face import (
    SoftLabeled,
    read_hugging_face,
    soft_labeled_rows,
    to_hugging_face,
    write_hugging_face,
)
from wiesel.io.label_store import RESOLVED, LabelStore
from wiesel.io.ray_session import RayVoteParts
from wiesel.io.rows import matching_files, read_batches, read_rows, scan_rows, write_rows
from wiesel.io.stores import Snapshot, SnapshotStore
from wiesel.io.vote_files import read_votes, write_votes
from wiesel.io.vote_parts import VoteParts, write_soft_label_parts

__all__ = [
    "FORMATS",
    "RESOLVED",
    "TOOLS",
    "Annotations",
    "Dataset",
    "FilePath",
    "LabelStore",
    "RayVoteParts",
    "Snapshot",
    "SnapshotStore",
    "SoftLabeled",
    "Split",
    "VoteParts",
    "existing_file",
    "existing_folder",
    "explained",
    "from_cleanlab",
    "load_wrench",
    "matching_files",
    "read_annotations",
    "read_answers",
    "read_batches",
    "read_gold",
    "read_hugging_face",
    "read_json",
    "read_rows",
    "read_votes",
    "replacing",
    "scan_rows",
    "soft_labeled_rows",
    "to_cleanlab",
    "to_hugging_face",
    "write_hugging_face",
    "write_predictions",
    "write_rows",
    "write_soft_label_parts",
    "write_votes",
]
