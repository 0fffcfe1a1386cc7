"""Reading and writing: tables of rows, votes, crowd answers, gold labels and WRENCH folders."""

from wiesel.io.answers import read_answers, read_gold
from wiesel.io.dataset import Dataset, Split
from wiesel.io.files import FORMATS, FilePath, existing_file, existing_folder, explained, replacing
from wiesel.io.label_store import RESOLVED, LabelStore
from wiesel.io.ray_votes import RayVoteParts
from wiesel.io.rows import matching_files, read_batches, read_rows, scan_rows, write_rows
from wiesel.io.snapshots import Snapshot, SnapshotStore
from wiesel.io.vote_files import read_votes, write_votes
from wiesel.io.vote_parts import VoteParts
from wiesel.io.wrench import load_wrench, read_json

__all__ = [
    "FORMATS",
    "RESOLVED",
    "Dataset",
    "FilePath",
    "LabelStore",
    "RayVoteParts",
    "Snapshot",
    "SnapshotStore",
    "Split",
    "VoteParts",
    "existing_file",
    "existing_folder",
    "explained",
    "load_wrench",
    "matching_files",
    "read_answers",
    "read_batches",
    "read_gold",
    "read_json",
    "read_rows",
    "read_votes",
    "replacing",
    "scan_rows",
    "write_rows",
    "write_votes",
]
