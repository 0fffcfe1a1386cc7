"""The training loop and its data. Nothing here is specific to weak supervision."""

from wiesel.nn.stacking import seeded
from wiesel.training.batches import Batch, Payload, TrainingData
from wiesel.training.history import History
from wiesel.training.inputs import Inputs, as_inputs
from wiesel.training.loop import Validation, train, train_together
from wiesel.training.objective import Objective, Record, TrainingHooks, TrainOptions, cosine
from wiesel.training.ray_train import RayTrain
from wiesel.training.token_inputs import TokenInputs

__all__ = [
    "Batch",
    "History",
    "Inputs",
    "Objective",
    "Payload",
    "RayTrain",
    "Record",
    "TokenInputs",
    "TrainOptions",
    "TrainingData",
    "TrainingHooks",
    "Validation",
    "as_inputs",
    "cosine",
    "seeded",
    "train",
    "train_together",
]
