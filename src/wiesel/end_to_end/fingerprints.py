"""Fingerprints of a run: hashes of its options, its votes and a sample of its inputs."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from wiesel.parameters import Parameterized
from wiesel.threads import one_thread
from wiesel.training.inputs import Batchable, Inputs
from wiesel.votes import VoteMatrix

if TYPE_CHECKING:
    from wiesel.end_to_end.plan import FitPlan

__all__ = [
    "data_fingerprint",
    "inputs_digest",
    "run_fingerprint",
    "short_hash",
    "votes_fingerprint",
]

# Options that do not change the result.
_IRRELEVANT = {"checkpoint", "progress", "epochs", "patience"}
_SAMPLED_ITEMS = 64


def run_fingerprint(model: Parameterized, data: str) -> str:
    """Return a short hash of options and data; `data` is the fingerprint of the plan."""
    return short_hash(json.dumps(_options(model), sort_keys=True) + data)


@one_thread()
def data_fingerprint(plan: "FitPlan") -> str:
    """Return a short hash of the training data of a plan."""
    digest = hashlib.sha256()
    validation = plan.validation
    held_out = None if validation is None else validation.inputs
    for inputs in (plan.data.inputs, plan.features, held_out):
        # Hash missing parts, too; otherwise features could pass for a validation set.
        digest.update(b"none" if inputs is None else inputs_digest(inputs))
    for votes in (plan.votes, plan.gold_votes):
        digest.update(b"none" if votes is None else votes_fingerprint(votes).encode())
    gold = None if validation is None else validation.gold
    for array in (plan.data.items, plan.targets, gold):
        digest.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def votes_fingerprint(votes: VoteMatrix) -> str:
    """Return a short hash of all votes, with voters and items."""
    digest = hashlib.sha256(repr((votes.voters, votes.labels.names)).encode())
    for array in (votes.indptr, votes.voter_index, votes.class_index, votes.distribution):
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def short_hash(text: str) -> str:
    """Return a hash of a text, with the length of a fingerprint."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _options(model: Parameterized) -> dict[str, str]:
    options = model.get_params(deep=True)
    return {key: _text(value) for key, value in options.items() if key not in _IRRELEVANT}


def _text(value: Any) -> str:
    if isinstance(value, nn.Module):
        digest = hashlib.sha256(str(value).encode())
        for tensor in value.state_dict().values():
            if is_lazy(tensor):
                continue
            digest.update(tensor.detach().cpu().contiguous().numpy(force=True).tobytes())
        return digest.hexdigest()
    return type(value).__name__ if isinstance(value, Parameterized) else repr(value)


def inputs_digest(inputs: Inputs) -> bytes:
    """Return a hash of the number of inputs and of a sample of them."""
    rows = np.linspace(0, len(inputs) - 1, min(_SAMPLED_ITEMS, len(inputs))).astype(np.int64)
    digest = hashlib.sha256(str(len(inputs)).encode())
    for tensor in _tensors(inputs.take(rows)):
        digest.update(tensor.contiguous().numpy(force=True).tobytes())
    return digest.digest()


def _tensors(batch: Batchable) -> list[Tensor]:
    return [batch] if isinstance(batch, Tensor) else [batch[key] for key in sorted(batch)]
