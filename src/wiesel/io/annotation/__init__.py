"""Reads answers from annotation tools, and writes soft labels for them as predictions."""

from wiesel.io.annotation.reading import (
    TOOLS,
    Annotations,
    is_annotation_file,
    read_annotations,
    write_predictions,
)

__all__ = [
    "TOOLS",
    "Annotations",
    "is_annotation_file",
    "read_annotations",
    "write_predictions",
]
