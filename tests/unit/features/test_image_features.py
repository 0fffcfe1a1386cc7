"""Pictures as arrays."""

import json
from pathlib import Path

import numpy as np
import pytest

from wiesel.errors import FeatureError, NotFittedError, ParameterError
from wiesel.features import FeatureState, ImageFeatures, features_from_state

COLORS = np.random.default_rng(0).integers(256, size=(6, 4, 5, 3), dtype=np.uint8)


def test_channels_come_first_and_are_standardized_apart() -> None:
    got = ImageFeatures().fit_transform(COLORS)
    assert got.shape == (6, 3, 4, 5)
    assert got.dtype == np.float32
    assert got.mean(axis=(0, 2, 3)) == pytest.approx(np.zeros(3), abs=1e-5)
    assert got.std(axis=(0, 2, 3)) == pytest.approx(np.ones(3), abs=1e-5)


def test_flat_pictures_hold_the_same_numbers() -> None:
    upright = ImageFeatures().fit_transform(COLORS)
    flat = ImageFeatures(layout="flat").fit_transform(COLORS)
    assert flat.tolist() == upright.reshape(6, -1).tolist()


def test_gray_pictures_get_one_channel() -> None:
    assert ImageFeatures().fit_transform(COLORS[..., 0]).shape == (6, 1, 4, 5)


def test_memory_mapped_pictures_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", COLORS)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert np.array_equal(
        ImageFeatures().fit_transform(mapped), ImageFeatures().fit_transform(COLORS)
    )


def test_state_gives_the_same_pictures_back() -> None:
    features = ImageFeatures(layout="flat").fit(COLORS)
    state = features.to_state()
    again = features_from_state(FeatureState(json.loads(json.dumps(state.settings)), state.arrays))
    assert np.array_equal(again.transform(COLORS), features.transform(COLORS))


def test_another_size_is_refused() -> None:
    with pytest.raises(FeatureError, match=r"\(4, 4, 3\).*fitted on \(4, 5, 3\). Resize"):
        ImageFeatures().fit(COLORS).transform(COLORS[:, :, :4])


@pytest.mark.parametrize("shape", [(3,), (3, 4), (0, 4, 4, 3), (1, 2, 3, 4, 5)])
def test_what_are_no_pictures_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(FeatureError, match="items x height x width"):
        ImageFeatures().fit(np.zeros(shape))


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"'layout' option.*'channels_first', 'flat'"):
        ImageFeatures(layout="round").fit(COLORS)  # type: ignore[arg-type]
    with pytest.raises(NotFittedError, match=r"call fit\(images\)"):
        ImageFeatures().transform(COLORS)
    with pytest.raises(FeatureError, match=r"one picture.*give picture\[None\]"):
        ImageFeatures().fit(COLORS).transform(COLORS[0])
