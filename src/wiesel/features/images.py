"""Images as arrays for neural networks: standardized per channel, channels first or flat."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from wiesel.errors import FeatureError, NotFittedError, SavedModelError
from wiesel.features.standardize import FeatureState, Standardizer, StoredFeatures, check_kind
from wiesel.parameters import Parameterized, check_choice, check_number

__all__ = ["ImageFeatures"]


@dataclass(eq=False, kw_only=True)
class ImageFeatures(StoredFeatures, Parameterized):
    """Standardizes images per channel.

    The input is (n_items, height, width, channels), or (n_items, height, width) for gray images.
    `channels_first` returns (n_items, channels, height, width), the layout of torch convolutions;
    `flat` returns one long vector per image.

    >>> pictures = np.array([[[0, 255]], [[255, 0]]], dtype=np.uint8)  # two of 1 x 2, gray
    >>> ImageFeatures(layout="flat").fit_transform(pictures)
    array([[-1.,  1.],
           [ 1., -1.]], dtype=float32)
    """

    layout: Literal["channels_first", "flat"] = "channels_first"
    """The layout of a transformed image."""

    standardizer_: Standardizer = field(init=False, repr=False)
    """The mean and standard deviation of each channel."""
    shape_: tuple[int, int, int] = field(init=False, repr=False)
    """Height, width and channels of the images."""

    def fit(self, images: Any, y: Any = None) -> Self:
        """Learn the mean and standard deviation of each channel from the training images."""
        self.check_options()
        array = _pictures(images)
        self.shape_ = (array.shape[1], array.shape[2], array.shape[3])
        self.standardizer_ = Standardizer().fit(array.reshape(-1, array.shape[3]))
        return self

    def check_options(self) -> None:
        """Refuse invalid options."""
        super().check_options()
        check_choice(self, "layout", self.layout, ("channels_first", "flat"))

    def transform(self, images: Any) -> npt.NDArray[np.float32]:
        """Return the standardized images, as float32."""
        self.check_fitted()
        array = _pictures(images)
        if array.shape[1:] != self.shape_ and np.shape(images) == self.shape_:
            raise FeatureError("This is one picture, where a batch is needed: give picture[None].")
        if array.shape[1:] != self.shape_:
            raise FeatureError(
                f"The pictures are {array.shape[1:]} (height, width, channels); the ImageFeatures "
                f"were fitted on {self.shape_}. Resize them first."
            )
        pixels = self.standardizer_.transform(array.reshape(-1, array.shape[3]))
        upright = pixels.reshape(array.shape).transpose(0, 3, 1, 2)
        if self.layout == "flat":
            return np.ascontiguousarray(upright).reshape(len(array), -1)
        return np.ascontiguousarray(upright)

    def fit_transform(self, images: Any, y: Any = None) -> npt.NDArray[np.float32]:
        """Return `fit(images).transform(images)`."""
        return self.fit(images).transform(images)

    def check_fitted(self) -> None:
        """Raise `NotFittedError` unless `fit` has run."""
        if not hasattr(self, "shape_"):
            raise NotFittedError("These ImageFeatures are not fitted yet: call fit(images) first.")

    def _n_columns(self) -> int:
        return math.prod(self.shape_)

    def to_state(self) -> FeatureState:
        """Return the options and the fitted values as plain data."""
        self.check_fitted()
        settings = {"kind": "images", "layout": self.layout, "shape": list(self.shape_)}
        return FeatureState(settings, self.standardizer_.to_state().arrays)

    @classmethod
    def from_state(cls, state: FeatureState) -> "ImageFeatures":
        """Return the fitted features from the result of `to_state`."""
        check_kind(state, "images", settings=("layout", "shape"))
        features = cls(layout=state.settings["layout"])
        check_choice(features, "layout", features.layout, ("channels_first", "flat"))
        height, width, channels = state.settings["shape"]
        for size in (height, width, channels):
            check_number(features, "shape", size, low=1, whole=True)
        features.shape_ = (height, width, channels)
        scaling = FeatureState({"kind": "standardizer"}, state.arrays)
        features.standardizer_ = Standardizer.from_state(scaling)
        if len(features.standardizer_.mean_) != channels:
            raise SavedModelError("The saved means are not those of the channels.")
        return features


def _pictures(images: Any) -> npt.NDArray[Any]:
    """(n_items, height, width, channels); gray images get one channel."""
    array = images if isinstance(images, np.ndarray) else np.asarray(images)
    if array.ndim == 3:
        array = array[:, :, :, None]
    if array.ndim != 4 or not array.size or array.dtype.kind not in "fiub":
        raise FeatureError(
            "Images must be numbers, items x height x width (x channels); got the shape "
            f"{np.shape(images)} of {array.dtype}."
        )
    return array
