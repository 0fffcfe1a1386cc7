"""Answers from annotation tools, and soft labels back to them as predictions."""

from wiesel.io.annotation.reading import (
    TOOLS,
    Annotations,
    is_annotation_file,
    read_annotations,
)
from wiesel.io.annotation.writing import write_predictions

__all__ = [
    "TOOLS",
    "Annotations",
    "is_annotation_file",
    "read_annotations",
    "write_predictions",
]
