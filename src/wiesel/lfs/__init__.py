"""Labeling functions: writing them, applying them, and inspecting their votes."""

from wiesel.lfs.access import Access
from wiesel.lfs.apply import apply_lfs, apply_lfs_to_folder, try_lfs
from wiesel.lfs.chat import ChatClient
from wiesel.lfs.costs import estimate_cost, prompt_records, read_batch_answers, write_batch_requests
from wiesel.lfs.engines import LocalEngine, RayEngine
from wiesel.lfs.failures import Failure, FailureLog, LabelingFunctionWarning
from wiesel.lfs.fingerprints import VoteCache
from wiesel.lfs.function import LabelingFunction
from wiesel.lfs.loading import load_lfs
from wiesel.lfs.model_function import from_model
from wiesel.lfs.prompt_rules import PromptFile, prompt, prompt_from_file
from wiesel.lfs.python_function import (
    Preprocessor,
    PythonFunction,
    labeling_function,
    preprocessor,
    votes_by_index,
)
from wiesel.lfs.rules_file import from_columns, rule_from_dict
from wiesel.lfs.spending import PriceTable, spending
from wiesel.lfs.table_rules import expression, lookup, threshold
from wiesel.lfs.text_rules import keywords, regex

__all__ = [
    "Access",
    "ChatClient",
    "Failure",
    "FailureLog",
    "LabelingFunction",
    "LabelingFunctionWarning",
    "LocalEngine",
    "Preprocessor",
    "PriceTable",
    "PromptFile",
    "PythonFunction",
    "RayEngine",
    "VoteCache",
    "apply_lfs",
    "apply_lfs_to_folder",
    "estimate_cost",
    "expression",
    "from_columns",
    "from_model",
    "keywords",
    "labeling_function",
    "load_lfs",
    "lookup",
    "preprocessor",
    "prompt",
    "prompt_from_file",
    "prompt_records",
    "read_batch_answers",
    "regex",
    "rule_from_dict",
    "spending",
    "threshold",
    "try_lfs",
    "votes_by_index",
    "write_batch_requests",
]
