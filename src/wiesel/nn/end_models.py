"""End models: ready-made ones, averages of several, calls of any module, shapes of tensors.

A ready-made end model is rebuilt from its arguments, so saving it needs no code.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Self
from zlib import crc32

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from wiesel.errors import FeatureError, SavedModelError, suggest

__all__ = [
    "CNN",
    "LSTM",
    "MLP",
    "SHIPPED",
    "Dropout",
    "Ensemble",
    "Linear",
    "ShippedModule",
    "evaluating",
    "fused_logits",
    "logits_of",
    "shapes_only",
    "shipped_module",
    "shipped_spec",
]


class Dropout(nn.Dropout):
    """Dropout whose mask is drawn from uniform float32 numbers.

    It has the same distribution as `torch.nn.Dropout`, whose CPU kernel draws in double precision
    and takes three times as long. In such small networks that is a tenth of a training step.

    >>> Dropout(0.5).eval()(torch.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, values: Tensor) -> Tensor:
        """Return the values with a share `p` of them set to 0 and the rest scaled up."""
        if not self.training or not 0 < self.p < 1:
            return super().forward(values)
        keep = torch.rand_like(values).ge_(self.p).mul_(1 / (1 - self.p))
        return values * keep


class ShippedModule(nn.Module):
    """A module that remembers the arguments it was made with, and its first weights.

    >>> Linear(3, 2).is_untrained
    True
    """

    arguments: dict[str, Any]

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """Return a new module from the arguments of a saved one."""
        return cls(**arguments)

    def made_with(self, **arguments: Any) -> None:
        """Remember the arguments; every constructor ends with it, when the weights are drawn."""
        self.arguments = arguments
        self._first_weights = self._checksum()

    @property
    def is_untrained(self) -> bool:
        """Whether the weights are those that the constructor drew: nobody trained or set them."""
        return self._first_weights is not None and self._checksum() == self._first_weights

    def _checksum(self) -> int | None:
        checksum = 0
        for parameter in self.parameters():
            if parameter.is_meta:  # a saved model is being restored: the weights come later
                return None
            checksum = crc32(parameter.detach().numpy(force=True).tobytes(), checksum)
        return checksum


class MLP(ShippedModule):
    """A multilayer perceptron; the defaults are the paper's end model.

    >>> MLP(300, 2)(torch.zeros(4, 300)).shape
    torch.Size([4, 2])
    """

    stackable = True

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        hidden: Sequence[int] = (50, 50, 25),
        dropout: float = 0.3,
    ) -> None:
        super().__init__()
        hidden = tuple(hidden)
        layers: list[nn.Module] = []
        for position, (size, following) in enumerate(itertools.pairwise((n_features, *hidden))):
            layers += [nn.Linear(size, following), nn.ReLU()]
            # If the paper's network has several hidden layers, the last one has no dropout.
            if position + 1 < len(hidden) or len(hidden) == 1:
                layers.append(Dropout(dropout))
        self.layers = nn.Sequential(*layers, nn.Linear((n_features, *hidden)[-1], n_classes))
        self.made_with(
            n_features=n_features, n_classes=n_classes, hidden=list(hidden), dropout=dropout
        )

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of a batch of feature vectors."""
        if self.training or any(map(_is_watched, self.layers)):
            logits: Tensor = self.layers(features)
            return logits
        # The same products without a call of every layer: half the time of one item.
        for layer in self.layers:
            if isinstance(layer, nn.Linear) and type(layer) is nn.Linear:
                features = nn.functional.linear(features, layer.weight, layer.bias)
            elif type(layer) is nn.ReLU:
                features = torch.relu(features)
            elif type(layer) is not Dropout:  # which does nothing outside of training
                features = layer(features)
        return features


def _is_watched(layer: nn.Module) -> bool:
    """Whether a function of the user is called with what the layer reads or returns."""
    return bool(layer._forward_hooks or layer._forward_pre_hooks or "forward" in layer.__dict__)


class Linear(ShippedModule):
    """Logistic regression.

    >>> Linear(300, 2)(torch.zeros(4, 300)).shape
    torch.Size([4, 2])
    """

    stackable = True

    def __init__(self, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(n_features, n_classes)
        self.made_with(n_features=n_features, n_classes=n_classes)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of a batch of feature vectors."""
        logits: Tensor = self.layer(features)
        return logits


class LSTM(ShippedModule):
    """A bidirectional LSTM on token ids (0 is padding), then a small perceptron.

    >>> LSTM(vocabulary=100, n_classes=2)(torch.ones(4, 7, dtype=torch.long)).shape
    torch.Size([4, 2])
    """

    def __init__(
        self,
        vocabulary: int,
        n_classes: int,
        embedding: int = 36,
        hidden: int = 50,
        head: Sequence[int] = (64, 32),
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True, bidirectional=True)
        self.head = MLP(2 * hidden, n_classes, hidden=tuple(head))
        self.made_with(
            vocabulary=vocabulary,
            n_classes=n_classes,
            embedding=embedding,
            hidden=hidden,
            head=list(head),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of a batch of token ids."""
        lengths = (tokens != 0).sum(dim=1).clamp(min=1).cpu()
        packed = nn.utils.rnn.pack_padded_sequence(
            self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False
        )
        _, (states, _) = self.lstm(packed)
        logits: Tensor = self.head(torch.cat([states[0], states[1]], dim=1))
        return logits


class CNN(ShippedModule):
    """Two convolutions and a perceptron for small images (items, channels, height, width).

    >>> CNN(channels=3, n_classes=8)(torch.zeros(4, 3, 32, 32)).shape
    torch.Size([4, 8])
    """

    def __init__(
        self, channels: int, n_classes: int, filters: Sequence[int] = (16, 32), dropout: float = 0.3
    ) -> None:
        super().__init__()
        first, second = filters
        self.layers = nn.Sequential(
            nn.Conv2d(channels, first, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(first, second, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            Dropout(dropout),
            nn.Linear(16 * second, n_classes),
        )
        self.made_with(
            channels=channels, n_classes=n_classes, filters=[first, second], dropout=dropout
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of a batch of images."""
        logits: Tensor = self.layers(images)
        return logits


SHIPPED: dict[str, type[ShippedModule]] = {cls.__name__: cls for cls in (MLP, Linear, LSTM, CNN)}
"""Ready-made end models by name; `wiesel.nn.taggers` adds those that read tokens."""


def shipped_spec(module: nn.Module) -> dict[str, Any] | None:
    """Return how to rebuild a shipped module, or None for a user-defined module.

    >>> shipped_spec(Linear(3, 2))
    {'name': 'Linear', 'arguments': {'n_features': 3, 'n_classes': 2}}
    """
    name = type(module).__name__
    if SHIPPED.get(name) is not type(module):
        return None
    return {"name": name, "arguments": module.arguments}


def shipped_module(spec: dict[str, Any]) -> nn.Module:
    """Return a new module from the result of `shipped_spec`."""
    cls = SHIPPED.get(str(spec.get("name")))
    if cls is None:
        raise SavedModelError(
            f"There is no shipped end model {spec.get('name')!r}. "
            f"{suggest(spec.get('name'), SHIPPED)}"
        )
    try:
        return cls.from_arguments(spec["arguments"])
    except (TypeError, ValueError, KeyError) as error:
        raise SavedModelError(
            f"The stored arguments of {cls.__name__} do not fit: {error}"
        ) from error


class Ensemble(nn.Module):
    """A network whose probabilities are the (weighted) mean of its members' probabilities.

    `offsets` are added to the logits of the mean, one for each class.

    >>> sure, unsure = nn.Identity(), nn.Threshold(10.0, 0.0)
    >>> logits = Ensemble([sure, unsure])(torch.tensor([[0.0, 9.0]]))
    >>> torch.softmax(logits, dim=1).round(decimals=2)
    tensor([[0.2500, 0.7500]])
    """

    def __init__(
        self,
        members: Iterable[nn.Module],
        weights: Sequence[float] | None = None,
        offsets: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.weights = None if weights is None else tuple(weights)
        self.offsets = None if offsets is None else tuple(map(float, offsets))

    def forward(self, inputs: Tensor | dict[str, Tensor]) -> Tensor:
        """Return the logarithm of the mean probability of every class, plus its offset."""
        weights = self.weights or (1 / len(self.members),) * len(self.members)
        # Members with weight 0 are not run.
        answers = [
            torch.log_softmax(logits_of(member, inputs), -1) + math.log(weight)
            for member, weight in zip(self.members, weights, strict=True)
            if weight > 0
        ]
        mean = torch.logsumexp(torch.stack(answers), dim=0)
        return mean if self.offsets is None else mean + mean.new_tensor(self.offsets)


def fused_logits(module: nn.Module, features: Tensor | dict[str, Tensor]) -> Tensor | None:
    """Return an ensemble's logits for a few items, by one product per layer for all its members.

    For one item, the calls of every layer of every member take longer than their products. The
    weights are put together anew each time, because anybody may change them. None if the module is
    no ensemble of `MLP` of one shape.

    >>> members = [MLP(3, 2).eval() for _ in range(2)]
    >>> ensemble, batch = Ensemble(members, [0.2, 0.8], [0.0, 1.0]), torch.ones(1, 3)
    >>> torch.allclose(fused_logits(ensemble, batch), ensemble(batch))
    True
    """
    leaves: list[tuple[float, _Layers]] = []
    if type(module) is not Ensemble or not _add_leaves(module, 1.0, leaves):
        return None
    layers = list(zip(*(own for _, own in leaves), strict=True))
    first = layers[0][0][0]
    fits = isinstance(features, Tensor) and features.shape[1:] == first.shape[1:]
    if not fits or (features.dtype, features.device) != (first.dtype, first.device):  # type: ignore[union-attr]
        return None
    values: Tensor = features  # type: ignore[assignment]
    for place, members in enumerate(layers):
        weights, biases = (torch.stack(parts) for parts in zip(*members, strict=True))
        if place:
            values = torch.baddbmm(biases.unsqueeze(1), values.relu_(), weights.mT)
        else:  # all members read the same values
            side_by_side = nn.functional.linear(values, weights.flatten(0, 1), biases.flatten())
            values = side_by_side.view(len(values), len(members), -1).transpose(0, 1)
    shares = values.new_tensor([math.log(weight) for weight, _ in leaves]).view(-1, 1, 1)
    mean = torch.logsumexp(torch.log_softmax(values, -1) + shares, dim=0)
    return mean if module.offsets is None else mean + mean.new_tensor(module.offsets)


_Layers = list[tuple[Tensor, Tensor]]
"""The weight and the bias of every linear layer."""


def _add_leaves(module: nn.Module, weight: float, leaves: list[tuple[float, _Layers]]) -> bool:
    """Add the members of all ensembles inside; False if they are no `MLP` of one shape."""
    if _is_watched(module):
        return False
    if type(module) is Ensemble:
        members: Any = module.members
        weights = module.weights or (1 / len(members),) * len(members)
        return all(
            getattr(member, "offsets", None) is None and _add_leaves(member, weight * own, leaves)
            for member, own in zip(members._modules.values(), weights, strict=True)
            if own > 0
        )
    layers = _linear_layers(module) if type(module) is MLP else None
    if layers is None:
        return False
    if leaves and [own.shape for own, _ in leaves[0][1]] != [own.shape for own, _ in layers]:
        return False
    leaves.append((weight, layers))
    return True


def _linear_layers(network: MLP) -> _Layers | None:
    """The linear layers of a network with ReLU between them; None if its layers were changed."""
    found: _Layers = []
    parts, is_linear = network.layers, False
    if type(parts) is not nn.Sequential or _is_watched(parts):
        return None
    for layer in parts._modules.values():
        kind = type(layer)
        if layer is None or _is_watched(layer):
            return None
        if kind is Dropout:  # does nothing outside of training
            continue
        if kind is not (nn.ReLU if is_linear else nn.Linear):
            return None
        is_linear = not is_linear
        if is_linear:
            weight, bias = layer._parameters["weight"], layer._parameters["bias"]
            if weight is None or bias is None:
                return None
            found.append((weight, bias))
    return found if is_linear else None


def logits_of(module: nn.Module, inputs: Tensor | dict[str, Tensor]) -> Tensor:
    """Return a module's logits for a batch: the tensor it returns, or its output's `logits`.

    A dict of tensors is passed as keyword arguments if `forward` has parameters with these names,
    as Hugging Face models do, and as one dict otherwise.
    """
    by_keyword = isinstance(inputs, dict) and _takes_keywords(type(module).forward, tuple(inputs))
    output = module(**inputs) if by_keyword else module(inputs)  # type: ignore[arg-type]
    logits = output["logits"] if isinstance(output, dict) and "logits" in output else output
    logits = getattr(logits, "logits", logits)
    if not isinstance(logits, Tensor):
        raise FeatureError(
            "The end model must return a tensor of logits (or an object with .logits, or a dict "
            f"with 'logits'); it returned {type(output).__name__}."
        )
    return logits


@cache
def _takes_keywords(forward: Callable[..., Any], names: tuple[str, ...]) -> bool:
    parameters = inspect.signature(forward).parameters
    return all(name in parameters for name in names)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode, and afterward restore the mode of every part of it."""
    # Training switches back and forth at every epoch, and predicting changes nothing: only parts
    # that are in training mode are visited twice.
    # The parts are found by hand: `modules()` takes longer than predicting one item with them.
    in_training, waiting = [], [module]
    while waiting:
        part = waiting.pop()
        if part.training:
            in_training.append(part)
        waiting.extend(child for child in part._modules.values() if child is not None)
    if in_training:
        module.eval()
    try:
        yield
    finally:
        # Not module.train(): the user may keep a part, such as a frozen BatchNorm, in eval mode.
        for part in in_training:
            part.training = True


@contextmanager
def shapes_only() -> Iterator[None]:
    """Make every tensor inside without memory and values, as `torch.device("meta")` does.

    There, torch computes the shape of random numbers and of simple arithmetic in Python, for which
    it loads its compiler: two seconds in every process. Initial values are nothing but such
    numbers, and here they cost nothing.

    >>> with shapes_only():
    ...     table = torch.nn.Embedding(10**9, 10**6).weight
    >>> table.shape, table.is_meta
    (torch.Size([1000000000, 1000000]), True)
    """
    with torch.device("meta"), _NoValues():
        yield


class _NoValues(TorchFunctionMode):
    """Replaces functions that give initial values by those that only give their shape."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.randn:
            return torch.empty(*args, **kwargs)
        if func is torch.eye:
            return torch.empty(args[0], args[-1], **kwargs)
        if func in _IN_PLACE or (func in _OF_EACH_NUMBER and _of_one_tensor(args)):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


_IN_PLACE: set[Any] = {Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_}
_OF_EACH_NUMBER: set[Any] = {Tensor.log, Tensor.add, Tensor.mul, Tensor.div, Tensor.__rsub__}


def _of_one_tensor(args: tuple[Any, ...]) -> bool:
    """Whether nothing can change the shape of the first tensor: no other, or one of its shape."""
    tensors = [value for value in args if isinstance(value, Tensor)]
    return all(other.shape == tensors[0].shape for other in tensors)
