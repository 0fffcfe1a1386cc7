"""The training loop, on one page. Nothing in it is specific to weak supervision.

It trains one network or a stack of several; `TrainingState` handles the difference.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from wiesel.errors import TrainingError
from wiesel.threads import fitting_threads
from wiesel.training.batches import TrainingData
from wiesel.training.engines import TrainingEngine, TrainingJob
from wiesel.training.history import History, progress_bar
from wiesel.training.objective import Objective, Record, TrainOptions, check_losses
from wiesel.training.state import Member, TrainingState, single_state, stacked_state
from wiesel.training.validation import Validation, predict_logits, proba_of

__all__ = ["run", "train", "train_together"]


def train(
    objective: Objective,
    data: TrainingData,
    options: TrainOptions,
    validation: Validation | None = None,
    fingerprint: str = "",
) -> History:
    """Train the objective's networks in place and return what happened.

    With a validation set, the weights of the best epoch are kept, otherwise those of the last.
    Interrupting (Ctrl-C) ends training with the best weights so far. If the options contain an
    engine, it does the same in other processes.
    """
    if options.engine is not None:
        states = [torch.get_rng_state()]
        job = TrainingJob([objective], states, data, [options], validation, fingerprint)
        return _trained_by(options.engine, job)[0]
    state = single_state(objective, options).resumed(fingerprint)
    return run(state, data, validation, fingerprint)[0]


def train_together(
    objectives: Sequence[Objective],
    random_states: Sequence[Tensor],
    data: TrainingData,
    options: Sequence[TrainOptions],
    validation: Validation | None = None,
    fingerprint: str = "",
) -> list[History]:
    """Train several objectives with the same architecture as one stack.

    Each is trained as `train` would train it alone. Only the learning rate may differ between
    options. `random_states` are the results of `torch.get_rng_state` for each objective before
    training. Raises `NotStackable` and changes nothing if there is no stacked form.
    """
    # Members with the same learning rate are adjacent, so that Adam sees them as one parameter.
    order = sorted(range(len(objectives)), key=lambda k: options[k].lr)
    own = [objectives[k] for k in order]
    own_options, states = [options[k] for k in order], [random_states[k] for k in order]
    engine = options[0].engine
    if engine is not None:
        job = TrainingJob(own, states, data, own_options, validation, fingerprint)
        found = _trained_by(engine, job)
    else:
        with fitting_threads(own[0]):
            state = stacked_state(own, own_options, states).resumed(fingerprint)
            found = run(state, data, validation, fingerprint)
    histories = dict(zip(order, found, strict=True))
    return [histories[k] for k in range(len(order))]


def _trained_by(engine: TrainingEngine, job: TrainingJob) -> list[History]:
    """The histories of an engine, which may be the user's own."""
    found = engine.train(job)
    n_networks = len(job.objectives)
    is_list = isinstance(found, list) and all(isinstance(each, History) for each in found)
    if not is_list or len(found) != n_networks:
        raise TrainingError(
            f"{type(engine).__name__}.train must return a list with the History of each network "
            f"({n_networks} here); got {found!r:.80}."
        )
    return found


def run(
    state: TrainingState, data: TrainingData, validation: Validation | None, fingerprint: str
) -> list[History]:
    """Train until all members of the state are finished, and return their histories."""
    options = state.options
    try:
        with (
            fitting_threads(state.members[0].objective),
            progress_bar(options.epochs, state.epochs_done, options.progress) as show,
        ):

            def finish_epoch(records: list[Record]) -> None:
                with state.parameters.showing(state.averages):
                    _evaluate_all(state.members, records, data, validation)
                state.call_user()
                state.save(fingerprint)
                show(state.latest_record())

            while state.unfinished():
                state.finish_epoch(finish_epoch, _run_epoch(state, data))
    except KeyboardInterrupt:
        for member in state.unfinished():
            member.progress.history.interrupted = True
    if state.averages is not None:
        state.parameters.set_to(state.averages)
    for member in state.members:
        if member.progress.best_weights is not None:
            member.objective.load_state_dict(member.progress.best_weights)
    state.release()
    return [member.progress.history for member in state.members]


def _run_epoch(state: TrainingState, data: TrainingData) -> list[Record]:
    """Go through all items once, and return the mean losses of every member."""
    objective, optimizer, epoch = state.objective, state.optimizer, state.epochs_done + 1
    hooks = state.options.hooks
    objective.start_epoch(epoch, data)
    objective.train(not state.options.pull)
    totals: dict[str, Tensor] = {}
    n_batches = 0
    for batch in state.batches(data):
        losses = state.losses(batch)
        if not n_batches:
            check_losses(losses, type(objective).__name__, len(state.members))
        # The loss of a frozen network has no gradient.
        state.differentiate([loss for loss in losses.values() if loss.requires_grad])
        optimizer.step(hooks.factor(state.share_done(data, n_batches)))
        if state.averages is not None:
            state.parameters.average_into(state.averages, state.options.weight_average)  # type: ignore[arg-type]
        for name, loss in losses.items():
            value = loss.detach()
            totals[name] = totals[name] + value if name in totals else value
        n_batches += 1
    objective.eval()
    means = {name: (total / n_batches).reshape(-1).tolist() for name, total in totals.items()}
    return [
        {"epoch": epoch, **{f"loss_{name}": means[name][k] for name in means}}
        for k in range(len(state.members))
    ]


def _evaluate_all(
    members: Sequence[Member],
    records: list[Record],
    data: TrainingData,
    validation: Validation | None,
) -> None:
    for member, record in zip(members, records, strict=True):
        if not member.is_finished:
            _evaluate(member, record, data, validation)


def _evaluate(
    member: Member, record: Record, data: TrainingData, validation: Validation | None
) -> None:
    """Score and record the epoch, and keep its weights if it is the best so far."""
    progress, objective = member.progress, member.objective
    _refuse_divergence(record, member.options)
    record |= objective.diagnose(data)
    if validation is None:
        progress.history.records.append(record)
        return
    logits = predict_logits(objective.end_model, validation.inputs)
    if not torch.isfinite(logits).all():
        what = "prediction for the validation set"
        raise _diverged(what, "infinite or NaN", record, member.options)
    score = validation.score(proba_of(logits))
    record[f"validation_{validation.metric}"] = score
    # Recorded first, so that after an interruption the best epoch always has a record.
    progress.history.records.append(record)
    # Until the first epoch that may be selected, the latest is kept, in case of an interruption.
    if score > progress.best_score or record["epoch"] <= member.options.first_epoch:
        progress.best_score = score
        weights = objective.state_dict()
        progress.best_weights = {name: value.clone() for name, value in weights.items()}
        progress.history.best_epoch = int(record["epoch"])


def _refuse_divergence(record: Record, options: TrainOptions) -> None:
    for name, value in record.items():
        if name.startswith("loss") and not math.isfinite(value):
            what = name.replace("loss_", "loss of the ").replace("_", " ")
            raise _diverged(what, value, record, options)


def _diverged(what: str, value: object, record: Record, options: TrainOptions) -> TrainingError:
    return TrainingError(
        f"The {what} became {value} in epoch {record['epoch']}. Lower the learning rate "
        f"(lr={options.lr:g} now) and check that the features are standardized."
    )
