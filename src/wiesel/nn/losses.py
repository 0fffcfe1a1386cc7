"""Losses that make two sets of logits agree: those of the paper and of its ablations.

Legend: P_f is the end model's distribution, P_e the encoder's soft label, CE(p, q) is the
cross-entropy of the prediction p to the target q. Logits are (n_items, n_classes). With leading
dimensions, as in a stack of networks, there is one loss for each of their entries.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "AGREEMENT_LOSSES",
    "DIVERGENCES",
    "AgreementLoss",
    "mutual_information_loss",
    "ranked_probability_loss",
    "soft_cross_entropy",
]

AgreementLoss = Callable[[Tensor, Tensor], dict[str, Tensor]]
"""From the logits of the end model and of the soft labels to losses by name."""


def soft_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of -sum_c target_c log softmax(logits)_c.

    >>> soft_cross_entropy(torch.zeros(1, 2), torch.tensor([[0.5, 0.5]]))
    tensor(0.6931)
    """
    return _cross_entropy(torch.log_softmax(logits, dim=-1), targets)


def ranked_probability_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean of sum_k (P(class <= k) - target(class <= k))^2, for classes in order.

    Confusing neighbors costs less than confusing the ends (Epstein 1969, "A scoring system for
    probability forecasts of ranked categories").

    >>> near, far = torch.tensor([[0.0, 9.0, 0.0]]), torch.tensor([[0.0, 0.0, 9.0]])
    >>> truth = torch.tensor([[1.0, 0.0, 0.0]])
    >>> bool(ranked_probability_loss(near, truth) < ranked_probability_loss(far, truth))
    True
    """
    apart = torch.cumsum(torch.softmax(logits, dim=-1) - targets, dim=-1)
    return apart.square().sum(dim=-1).mean(dim=-1)


def _cross_entropy(log_proba: Tensor, targets: Tensor) -> Tensor:
    # One dot product: the sum over classes and the mean over items at once.
    total = torch.linalg.vecdot(targets.flatten(start_dim=-2), log_proba.flatten(start_dim=-2))
    return total / -log_proba.shape[-2]


def symmetric(end_logits: Tensor, label_logits: Tensor) -> dict[str, Tensor]:
    """CE(P_f, sg P_e) for the end model and CE(P_e, sg P_f) for the encoder (Algorithm 1)."""
    log_end, log_label = torch.log_softmax(end_logits, -1), torch.log_softmax(label_logits, -1)
    return {
        "end_model": _cross_entropy(log_end, log_label.detach().exp()),
        "encoder": _cross_entropy(log_label, log_end.detach().exp()),
    }


def encoder_target(end_logits: Tensor, label_logits: Tensor) -> dict[str, Tensor]:
    """CE(P_f, P_e): one loss, gradients through both arguments."""
    return {"agreement": soft_cross_entropy(end_logits, torch.softmax(label_logits, -1))}


def end_model_target(end_logits: Tensor, label_logits: Tensor) -> dict[str, Tensor]:
    """CE(P_e, P_f): one loss, gradients through both arguments."""
    return {"agreement": soft_cross_entropy(label_logits, torch.softmax(end_logits, -1))}


def no_stop_gradient(end_logits: Tensor, label_logits: Tensor) -> dict[str, Tensor]:
    """Half of each cross-entropy, gradients through all arguments."""
    to_encoder = soft_cross_entropy(end_logits, torch.softmax(label_logits, -1))
    to_end_model = soft_cross_entropy(label_logits, torch.softmax(end_logits, -1))
    return {"agreement": (to_encoder + to_end_model) / 2}


def l1(end_logits: Tensor, label_logits: Tensor) -> dict[str, Tensor]:
    """Mean absolute difference of the two distributions."""
    difference = torch.softmax(end_logits, -1) - torch.softmax(label_logits, -1)
    return {"agreement": difference.abs().mean(dim=(-2, -1))}


def hellinger(end_logits: Tensor, label_logits: Tensor) -> dict[str, Tensor]:
    """Squared Hellinger distance (without the factor 1/2): sum_c (sqrt p_c - sqrt q_c)^2."""
    # sqrt(p) = exp(log p / 2) has a finite gradient at p = 0, where sqrt itself has none.
    roots = [torch.exp(torch.log_softmax(z, -1) / 2) for z in (end_logits, label_logits)]
    return {"agreement": (roots[0] - roots[1]).square().sum(dim=-1).mean(dim=-1)}


class _Divergence(NamedTuple):
    """The two functions of log K that the variational form of an f-divergence needs."""

    gain: Callable[[Tensor], Tensor]
    """f'(K), for an item's own pair."""
    cost: Callable[[Tensor], Tensor]
    """f*(f'(K)) = K f'(K) - f(K), for pairs of different items."""


def _log_mean(log_pairing: Tensor) -> Tensor:
    """log((1 + K) / 2)."""
    return torch.nn.functional.softplus(log_pairing) - math.log(2)


def _half_tanh(log_pairing: Tensor) -> Tensor:
    # f'(K) = sign(K - 1) / 2 has no gradient. tanh is a smooth version of it, within the bounds
    # +-1/2 for which f*(t) = t.
    return torch.tanh(log_pairing) / 2


DIVERGENCES: dict[str, _Divergence] = {
    "kl": _Divergence(lambda k: 1 + k, torch.exp),
    "reverse_kl": _Divergence(lambda k: -torch.exp(-k), lambda k: k - 1),
    "pearson": _Divergence(lambda k: 2 * torch.expm1(k), lambda k: torch.expm1(2 * k)),
    "hellinger": _Divergence(lambda k: -torch.expm1(-k / 2), lambda k: torch.expm1(k / 2)),
    "total_variation": _Divergence(_half_tanh, _half_tanh),
    "jensen_shannon": _Divergence(lambda k: k - _log_mean(k), _log_mean),
}
"""The f-divergences that can compare two predictions; `kl` gives mutual information."""


def mutual_information_loss(
    end_proba: Tensor, label_proba: Tensor, prior: Tensor | None = None, divergence: str = "kl"
) -> Tensor:
    """Return the negative f-mutual-information gain of two predictions (Max-MIG).

    K_ab = sum_c p_c(a) q_c(b) / prior_c pairs item a's prediction with item b's soft label. The
    gain is mean_a f'(K_aa) - mean_{a != b} f*(f'(K_ab)). For KL (f = t log t) that is
    mean_a (1 + log K_aa) - mean_{a != b} K_ab. Constant predictions have K = 1 everywhere and a
    gain of 0.

    >>> mutual_information_loss(torch.full((4, 2), 0.5), torch.full((4, 2), 0.5)).abs().item()
    0.0
    """
    n_items, n_classes = end_proba.shape[-2:]
    prior = end_proba.new_full((n_classes,), 1 / n_classes) if prior is None else prior
    gain, cost = DIVERGENCES[divergence]
    # Two confident, contradicting predictions make K vanish; log needs a floor.
    log_pairing = ((end_proba / prior) @ label_proba.mT).clamp_min(1e-6).log()
    costs, own = cost(log_pairing), log_pairing.diagonal(dim1=-2, dim2=-1)
    others = costs.sum(dim=(-2, -1)) - costs.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    return others / max(1, n_items * (n_items - 1)) - gain(own).mean(dim=-1)


def mig(end_logits: Tensor, label_logits: Tensor) -> dict[str, Tensor]:
    """The mutual-information gain of the two networks, with a uniform prior."""
    end_proba, label_proba = torch.softmax(end_logits, -1), torch.softmax(label_logits, -1)
    return {"agreement": mutual_information_loss(end_proba, label_proba)}


AGREEMENT_LOSSES: dict[str, AgreementLoss] = {
    "symmetric": symmetric,
    "encoder_target": encoder_target,
    "end_model_target": end_model_target,
    "no_stop_gradient": no_stop_gradient,
    "l1": l1,
    "hellinger": hellinger,
    "mig": mig,
}
