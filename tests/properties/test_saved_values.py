"""Whatever plain values an option has, saving and loading gives them back."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from wiesel.errors import SavedModelError
from wiesel.saving import decoded, encoded, read_folder, read_json, write_folder

# Timing never decides a test: the machine may be busy.
unhurried = settings(deadline=None, max_examples=30)

numbers = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
keys = st.text().filter(lambda key: not key.startswith("$"))
values = st.recursive(
    numbers | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)
arrays = npst.arrays(
    st.sampled_from(["<f8", "<f4", "<i8", "<i2", "|u1", "|b1"]),
    npst.array_shapes(max_dims=3, max_side=4),
)


@unhurried
@given(values)
def test_plain_values_survive_json(value):
    again = decoded(json.loads(json.dumps(encoded(value))))
    assert again == value
    assert repr(again) == repr(value), "the types of numbers and sequences survive too"


@unhurried
@given(arrays)
def test_arrays_survive_json_bit_by_bit(array):
    again = decoded(json.loads(json.dumps(encoded(array))))
    assert again.dtype == array.dtype
    assert again.shape == array.shape
    assert again.tobytes() == array.tobytes() or np.array_equal(again, array, equal_nan=True)


@unhurried
@given(
    manifest=st.dictionaries(
        keys.filter(lambda key: key not in ("format", "files", "sha256")), values, max_size=4
    ),
    content=st.binary(max_size=200),
)
def test_folders_survive_being_written_over_and_over(tmp_path_factory, manifest, content):
    folder: Path = tmp_path_factory.getbasetemp() / "saved_values" / "model"
    write_folder(folder, encoded(manifest), {"data.bin": content})
    read, files = read_folder(folder)
    assert files == {"data.bin": content}
    assert {key: decoded(read[key]) for key in manifest} == manifest


@unhurried
@given(st.binary(max_size=300))
def test_any_bytes_are_json_or_refused(content):
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        with pytest.raises(SavedModelError):
            read_json(content, "file")
    else:
        assert repr(read_json(content, "file")) == repr(value)
