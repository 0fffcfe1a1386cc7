"""WeaSEL.fit compared with a bare loop of the same math, and with a torch DataLoader loop.

It uses the paper's networks, 99 voters, 300 features, batch size 64, 10,000 items and one thread.
The bare loops record no history and use no validation set; `WeaSEL.fit` does both. One DataLoader
serves features and votes, which are encoded in the step; the other serves tensors encoded before.
The results are items per CPU second, and ratios within one run.

The case `stack` has the shapes of imdb_136: fourteen WeaSELs (seven seeds, two learning rates),
fitted as one stack and one by one, each in a separate process. Votes are signed, as in table 1 of
the paper, or one-hot, which makes the first layer larger. Training takes ten epochs, so that the
fixed cost of a fit matters little, as in the paper's 75 or more.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.harness import ONE_THREAD, ROOT, setting
from wiesel import VoteMatrix, WeaSEL, fit_together
from wiesel.nn import MLP

N_ITEMS, N_VOTERS, N_FEATURES, BATCH = 10_000, 99, 300, 64
RESULTS = Path(__file__).parent / "results" / "training.json"
BARE = "bare loop, slices of encoded tensors"
LOADER = "DataLoader of features and votes"
ENCODED_LOADER = "DataLoader of encoded tensors"
OURS = "WeaSEL.fit, history and validation"


STACK_ITEMS, STACK_VOTERS, STACK_FEATURES = 22_000, 136, 200
MEMBERS = [(seed, lr) for seed in range(7) for lr in (1e-4, 3e-5)]
ONE_BY_ONE, STACK = "fourteen, one after the other", "fourteen as one stack"
ENCODINGS = ("signed", "one_hot")


def make_data(
    n_items: int = N_ITEMS, n_voters: int = N_VOTERS, n_features: int = N_FEATURES
) -> tuple[np.ndarray, VoteMatrix, np.ndarray]:
    """Return features, votes (one in ten cast) and gold of a two-class task."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(n_items, n_features)).astype(np.float32)
    gold = (features[:, 0] > 0).astype(np.int64)
    right = rng.random((n_items, n_voters)) < 0.7
    cast = rng.random((n_items, n_voters)) < 0.1
    votes = np.where(cast, np.where(right, gold[:, None], 1 - gold[:, None]), -1)
    return features, VoteMatrix.from_dense(votes, ["no", "yes"]), gold


def plain_networks() -> tuple[nn.Module, nn.Module]:
    """Return the paper's two networks, built from torch layers."""
    end_model = nn.Sequential(
        *(nn.Linear(N_FEATURES, 50), nn.ReLU(), nn.Dropout(0.3)),
        *(nn.Linear(50, 50), nn.ReLU(), nn.Dropout(0.3)),
        *(nn.Linear(50, 25), nn.ReLU(), nn.Linear(25, 2)),
    )
    encoder = nn.Sequential(
        *(nn.Linear(3 * N_VOTERS + N_FEATURES, 70), nn.BatchNorm1d(70), nn.ReLU(), nn.Dropout(0.3)),
        *(nn.Linear(70, 70), nn.BatchNorm1d(70), nn.ReLU(), nn.Dropout(0.3)),
        nn.Linear(70, N_VOTERS),
    )
    return end_model, encoder


def bare_loop(batches: Callable[[], Iterator[tuple[Tensor, ...]]], epochs: int) -> None:
    """Train the paper's networks with Algorithm 1 and nothing else."""
    torch.manual_seed(0)
    end_model, encoder = plain_networks()
    parameters = [*end_model.parameters(), *encoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-4, weight_decay=7e-7, fused=True)
    tau_2 = math.sqrt(N_VOTERS)
    for _ in range(epochs):
        for inputs, votes, encoded in batches():
            accuracies = tau_2 * torch.softmax(encoder(encoded), dim=1)
            labels = torch.bmm(accuracies.unsqueeze(1), votes).squeeze(1)
            log_label = torch.log_softmax(labels, dim=1)
            log_end = torch.log_softmax(end_model(inputs), dim=1)
            loss = -(log_end * log_label.detach().exp()).sum(dim=1).mean()
            loss = loss - (log_label * log_end.detach().exp()).sum(dim=1).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()


def encoded_batch(inputs: Tensor, votes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tensors for a step, from features and class indices (-1 abstains)."""
    one_hot = nn.functional.one_hot(votes + 1, 3).float()
    return inputs, one_hot[:, :, 1:], torch.cat([one_hot.flatten(start_dim=1), inputs], dim=1)


def contenders(epochs: int) -> dict[str, Callable[[], object]]:
    """Return the timed calls by name; the data is in memory before the clock starts."""
    features, votes, gold = make_data()
    covered = np.flatnonzero(votes.covered)
    inputs = torch.from_numpy(features)[covered]
    classes = torch.from_numpy(votes.dense())[covered].long()
    ready = [part.contiguous() for part in encoded_batch(inputs, classes)]
    plain = DataLoader(TensorDataset(inputs, classes), batch_size=BATCH, shuffle=True)
    encoded = DataLoader(TensorDataset(*ready), batch_size=BATCH, shuffle=True)

    def slices() -> Iterator[tuple[Tensor, ...]]:
        order = torch.randperm(len(inputs))
        for start in range(0, len(inputs), BATCH):
            rows = order[start : start + BATCH]
            yield tuple(part[rows] for part in ready)

    model = WeaSEL.paper(MLP(N_FEATURES, 2), epochs=epochs, tau_1=1.0, progress=False, device="cpu")
    validation = (features[:250], gold[:250])
    return {
        BARE: lambda: bare_loop(slices, epochs),
        LOADER: lambda: bare_loop(lambda: (encoded_batch(*batch) for batch in plain), epochs),
        ENCODED_LOADER: lambda: bare_loop(lambda: iter(encoded), epochs),
        OURS: lambda: model.fit(features, votes, validation),
    }


def stacked_rates(encoding: str, epochs: int, repeats: int) -> dict[str, float]:
    """Return the items per CPU second of fourteen networks, fitted in both ways."""
    seconds: dict[str, list[float]] = {ONE_BY_ONE: [], STACK: []}
    for _ in range(repeats):
        for way in seconds:
            command = [sys.executable, "-m", "benchmarks.training", "--way", way]
            done = subprocess.run(
                [*command, "--encoding", encoding, "--epochs", str(epochs)],
                cwd=ROOT,
                env={**os.environ, **ONE_THREAD},
                capture_output=True,
                text=True,
                check=True,
            )
            seconds[way].append(float(done.stdout.splitlines()[-1]))
    n_items = len(MEMBERS) * epochs * STACK_ITEMS
    return {way: n_items / statistics.median(values) for way, values in seconds.items()}


def time_fourteen(way: str, epochs: int, encoding: str = "one_hot") -> float:
    """Return the CPU seconds of fitting fourteen networks in one of the two ways."""
    features, votes, gold = make_data(STACK_ITEMS, STACK_VOTERS, STACK_FEATURES)
    validation = (features[:250], gold[:250])
    options = {"tau_1": 1.0, "encoding": encoding, "progress": False, "device": "cpu"}

    def models(epochs: int) -> list[WeaSEL]:
        return [
            WeaSEL.paper(MLP(STACK_FEATURES, 2), epochs=epochs, seed=seed, lr=lr, **options)
            for seed, lr in MEMBERS
        ]

    few = np.arange(500)
    fit_together(models(1), features[few], votes[few], validation)  # first calls take longer
    start = time.process_time()
    if way == STACK:
        fit_together(models(epochs), features, votes, validation)
    else:
        for model in models(epochs):
            model.fit(features, votes, validation)
    return time.process_time() - start


def main(argv: list[str] | None = None) -> None:
    """Time the loops, and the stack against its members, and print items per CPU second."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks training", description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=("loops", "stack"))
    parser.add_argument("--way", choices=(ONE_BY_ONE, STACK), help="time one fit, for `stack`")
    parser.add_argument("--encoding", choices=ENCODINGS, default="one_hot", help="for `--way`")
    parser.add_argument("--quick", action="store_true", help="one short run; nothing is kept")
    arguments, _ = parser.parse_known_args(argv)
    if arguments.way:
        print(time_fourteen(arguments.way, arguments.epochs, arguments.encoding))
        return
    if arguments.quick:
        arguments.epochs, arguments.repeats = 1, 1
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if arguments.only != "stack":
        record |= compare_loops(arguments.epochs, arguments.repeats)
    if arguments.only != "loops":
        epochs = max(1, arguments.epochs * 2 // 3)
        record["stack"] = {
            encoding: compare_stack(encoding, epochs, arguments.repeats) for encoding in ENCODINGS
        }
    if not arguments.quick:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(record, indent=1) + "\n")


def compare_stack(encoding: str, epochs: int, repeats: int) -> dict[str, object]:
    """Print and return the comparison of a stack with training its members one by one."""
    rates = stacked_rates(encoding, epochs, repeats)
    print(f"Votes encoded as {encoding}:")
    for name, rate in rates.items():
        print(f"{name:37} {rate:>9,.0f} items per CPU second")
    ratio = rates[STACK] / rates[ONE_BY_ONE]
    print(f"The stack runs at {ratio:.2f} times the speed of its members.")
    return {
        "items_per_cpu_second": rates,
        "stack_is_times_as_fast": ratio,
        "epochs": epochs,
        "repeats": repeats,
        **setting(),
    }


def compare_loops(epochs: int, repeats: int) -> dict[str, object]:
    """Print and return the comparison of `WeaSEL.fit` with bare loops."""
    torch.set_num_threads(1)
    runs = contenders(epochs)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        # In turn, so that outside load affects all of them equally.
        for name, run in runs.items():
            start = time.process_time()
            run()
            seconds[name].append(time.process_time() - start)
    rates = {name: epochs * N_ITEMS / statistics.median(values) for name, values in seconds.items()}
    for name, rate in rates.items():
        share = rate / rates[BARE]
        print(f"{name:37} {rate:>9,.0f} items per CPU second   {share:5.2f} of the bare loop")
    ratios = {name: rates[OURS] / rates[name] for name in (BARE, LOADER, ENCODED_LOADER)}
    for name, ratio in ratios.items():
        print(f"WeaSEL.fit runs at {ratio:.2f} times the speed of: {name}")
    return {
        "items_per_cpu_second": rates,
        "weasel_fit_is_times_as_fast_as": ratios,
        "epochs": epochs,
        "repeats": repeats,
        "torch": torch.__version__,
        "machine": f"{platform.machine()}, Python {platform.python_version()}, one thread",
    }


if __name__ == "__main__":
    main()
