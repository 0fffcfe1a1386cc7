"""Write train.csv, dev.csv and test.csv: people whose income follows from a few columns.

python examples/income/make_data.py
"""

from pathlib import Path

import numpy as np
import polars as pl

SIZES = {"train": 800, "dev": 80, "test": 300}
OCCUPATIONS = {"manager": 1.2, "engineer": 1.0, "sales": 0.2, "service": -0.8, "farming": -1.0}


def people(n_items, rng):
    """Return a table of people with their income."""
    age = rng.integers(18, 75, n_items)
    education = np.clip(rng.normal(11, 3, n_items).round(), 4, 18).astype(int)
    hours = np.clip(rng.normal(40, 10, n_items).round(), 5, 80).astype(int)
    gain = np.where(rng.random(n_items) < 0.1, rng.integers(1000, 20000, n_items), 0)
    occupation = rng.choice(list(OCCUPATIONS), n_items)
    married = rng.random(n_items) < 0.5
    score = 0.35 * (education - 11) + 0.03 * (age - 40) + 0.05 * (hours - 40) + gain / 4000
    score += np.array([OCCUPATIONS[name] for name in occupation]) + 0.8 * married - 0.8
    high = rng.random(n_items) < 1 / (1 + np.exp(-1.5 * score))
    return pl.DataFrame(
        {
            "age": age,
            "education_years": education,
            "hours": hours,
            "capital_gain": gain,
            "occupation": occupation,
            "married": np.where(married, "yes", "no"),
            "income": np.where(high, "high", "low"),
        }
    )


def frames(seed=0):
    """Return the rows of every file; the training rows have no income."""
    rng = np.random.default_rng(seed)
    made = {}
    for name, size in SIZES.items():
        table = people(size, rng)
        ids = pl.Series("person", [f"{name}-{row}" for row in range(size)])
        made[name] = table.insert_column(0, ids)
    made["train"] = made["train"].drop("income")
    return made


if __name__ == "__main__":
    for split, table in frames().items():
        table.write_csv(Path(__file__).parent / f"{split}.csv")
