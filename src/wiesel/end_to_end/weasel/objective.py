"""WeaSEL's training objective: two networks, and the losses that make them agree."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from wiesel.end_to_end.plan import voter_record
from wiesel.end_to_end.vote_payloads import DenseVotes
from wiesel.nn.encoders import Encoding, VoteEncoder, encode_votes
from wiesel.nn.end_models import logits_of
from wiesel.nn.losses import AGREEMENT_LOSSES, soft_cross_entropy
from wiesel.training import Batch, Record, TrainingData
from wiesel.training.objective import SoftLabelObjective, prediction_record, rows_of

__all__ = ["WeaSELObjective"]

Array = npt.NDArray[np.float64]


class WeaSELObjective(SoftLabelObjective):
    """The two networks of Algorithm 1 and the losses that make them agree.

    In the first `warm_up` epochs both learn the fixed soft labels instead.
    """

    stackable = True
    log_prior: Tensor

    def __init__(
        self,
        end_model: nn.Module,
        encoder: VoteEncoder,
        encoding: Encoding,
        loss: str,
        class_balance: Array,
        start: Array | None = None,
        warm_up: int = 0,
    ) -> None:
        nothing = np.empty((0, len(class_balance)))
        super().__init__(end_model, nothing if start is None else start)
        self.encoder = encoder
        self.encoding: Encoding = encoding
        self.agreement = AGREEMENT_LOSSES[loss]
        self.warm_up = 0 if start is None else warm_up
        self.is_warming_up = self.warm_up > 0
        self.register_buffer("log_prior", torch.from_numpy(np.log(class_balance)).float())

    def start_epoch(self, epoch: int, data: TrainingData) -> None:
        """Set whether the networks are still trained on the initial soft labels."""
        self.is_warming_up = epoch <= self.warm_up

    def prepare(self, batch: Batch) -> Batch:
        """Return the batch with the encoder's whole input, votes and features, in `features`."""
        own: DenseVotes = batch.payload
        encoded = encode_votes(own.votes, self.encoding, own.features)
        shared = own.features if own.features is batch.inputs else None
        n_inputs = 0 if shared is None else shared.shape[-1]
        return replace(batch, payload=DenseVotes(own.votes, encoded, n_inputs))

    def weigh(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the voters' shares and the logits of the soft labels of a prepared batch."""
        own: DenseVotes = batch.payload
        shares, logits = self.encoder.soft_label(own.features, own.votes)  # type: ignore[arg-type]
        return shares, logits + self.log_prior.unsqueeze(-2)

    def outputs(self, batch: Batch) -> dict[str, Tensor]:
        """Return the logits of the soft labels and of the end model."""
        _, label = self.weigh(batch)
        return {"encoder": label, "end_model": logits_of(self.end_model, batch.inputs)}

    def compare(self, rows: Tensor, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the losses of the end model and of the encoder."""
        end_logits, label = outputs["end_model"], outputs["encoder"]
        if not self.is_warming_up:
            return self.agreement(end_logits, label)
        targets = rows_of(self.targets, rows)
        return {
            "end_model": soft_cross_entropy(end_logits, targets),
            "encoder": soft_cross_entropy(label, targets),
        }

    @torch.no_grad()
    def diagnose(self, data: TrainingData) -> Record:
        """Return the networks' agreement and the voter weights on a fixed sample of items."""
        batch = self.prepare(data.diagnosed(self.log_prior.device))
        votes: Tensor = batch.payload.votes
        shares, label = self.weigh(batch)
        predicted = logits_of(self.end_model, batch.inputs).argmax(dim=1)
        voted = votes[:, : self.encoder.n_voters].sum(dim=1).argmax(dim=1)
        record = prediction_record(predicted, label.argmax(dim=1), voted, label.shape[1])
        return record | voter_record(shares, votes)
