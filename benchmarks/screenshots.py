"""Screenshots of every page of the workbench for people to look at: `make screenshots`.

Each project is a hard case: 77 classes, one class rare, a million rows, several labels, spans.
Each page is taken as on a laptop by day and as on a phone by night, and of many classes on a wide
screen, into out/screenshots. `--docs` writes the pictures of docs/images from the tutorial's
project, `--film` the moving picture of README.md.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.first_classifier import STEPS, Person, reviews_file
from benchmarks.harness import ROOT
from benchmarks.workbench import served

OUT = ROOT / "out" / "screenshots"
DOCS = ROOT / "docs" / "images"
PAGES = {"data": "/", "map": "/map", "lfs": "/lfs", "label": "/label", "train": "/train"} | {
    "results": "/results"
}
SCREENS: dict[str, dict[str, Any]] = {
    "laptop": {"viewport": {"width": 1400, "height": 900}, "color_scheme": "light"},
    "phone": {
        "viewport": {"width": 390, "height": 844},
        "color_scheme": "dark",
        "device_scale_factor": 2,
    },
}
WIDE = {"viewport": {"width": 1920, "height": 1080}, "color_scheme": "dark"}
READY = {
    "/": ".data-rows.w-ready",
    "/map": ".map-part >> nth=0",
    "/lfs": ".lf-table tbody tr, .lf-table .w-empty",
    "/label": ".label-row .w-text, .mark-text, .label-save",
    "/train": ".train-runs tbody tr, .train-runs .w-empty",
    "/results": ".results .w-card, main > .w-empty",
}
VERBS = ("cancel", "change", "return", "track", "pay", "lose", "block", "renew", "open", "move")
NOUNS = ("card", "order", "account", "ticket", "invoice", "parcel", "loan", "booking")
OPENINGS = ("Hello,", "Please help:", "Hi there,", "Again:", "")
ENDINGS = ("as soon as you can", "before Monday", "and I do not know how", "from abroad", "")


def _messages(names: list[tuple[str, str]], rng: np.random.Generator) -> Iterator[str]:
    for verb, noun in names:
        opening, ending = rng.choice(OPENINGS), rng.choice(ENDINGS)
        yield f"{opening} I want to {verb} my {noun} {ending}".strip()


def intents(folder: Path) -> None:
    """77 classes and 152 rules."""
    names = [(verb, noun) for verb in VERBS for noun in NOUNS][:77]
    rng = np.random.default_rng(0)
    own = [names[k] for k in rng.integers(0, 77, 5_000)]
    classes = [f"{verb}_{noun}" for verb, noun in names]
    rules = [
        _rule(f"{verb}_{noun}", pattern, f"{verb}_{noun}_{number}")
        for verb, noun in names
        for number, pattern in enumerate((f"{verb} my {noun}", f"{verb}.*{noun}"), start=1)
    ][:152]
    texts = list(_messages(own, rng))
    gold = [f"{verb}_{noun}" for verb, noun in own]
    _write(folder, classes, rules, {"train": (texts[:4_000], None)} | _test(texts, gold, 4_000))


def rare(folder: Path) -> None:
    """One class of a hundredth of the rows."""
    rng = np.random.default_rng(0)
    is_rare = rng.random(6_000) < 0.01
    verbs = np.where(is_rare, "lose", rng.choice(["track", "pay", "move"], 6_000))
    texts = list(_messages([(verb, rng.choice(NOUNS)) for verb in verbs], rng))
    rules = [_rule("emergency", "lose", "lose"), _rule("routine", "track|pay", "track_or_pay")]
    rules.append(_rule("emergency", "Again", "again"))
    gold = ["emergency" if each else "routine" for each in is_rare]
    splits = {"train": (texts[:4_000], None)} | _test(texts, gold, 4_000)
    _write(folder, ["routine", "emergency"], rules, splits)


def million(folder: Path) -> None:
    """A million rows."""
    rng = np.random.default_rng(0)
    names = [(verb, noun) for verb in VERBS for noun in NOUNS]
    own = [names[k] for k in rng.integers(0, len(names), 10**6)]
    rules = [_rule("money", "pay|invoice", "pay"), _rule("things", "card|parcel", "card")]
    _write(folder, ["money", "things"], rules, {"train": (list(_messages(own, rng)), None)})


def _test(texts: list[str], gold: list[str], start: int) -> dict[str, Any]:
    return {"test": (texts[start:], gold[start:])}


def _rule(label: str, pattern: str, name: str) -> str:
    lines = ('kind = "regex"', f'label = "{label}"', f'pattern = "{pattern}"', 'column = "text"')
    return "\n".join(("[[lf]]", *lines, f'name = "{name}"', ""))


def _write(folder: Path, classes: list[str], rules: list[str], splits: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    for name, (texts, gold) in splits.items():
        columns = {"id": [f"{name}-{k}" for k in range(len(texts))], "text": texts}
        pl.DataFrame(columns | ({"label": gold} if gold else {})).write_parquet(
            folder / f"{name}.parquet"
        )
    files = "".join(f'{name} = "{name}.parquet"\n' for name in splits)
    (folder / "rules.toml").write_text("\n".join(rules))
    (folder / "wiesel.toml").write_text(
        f"classes = {classes}\n\n[data]\n{files}\n[votes]\nlfs = ['rules.toml']\n\n"
        "[features]\ncolumn = 'text'\nn_dimensions = 50\n\n[end_model]\nname = 'linear'\n\n"
        "[method]\nname = 'majority_vote'\n\n[training]\nepochs = 5\n"
    )


def starter(kind: str) -> Callable[[Path], None]:
    """The project of the tutorial, or that for several labels or spans."""

    def write(folder: Path) -> None:
        from wiesel.project.starter import write_starter

        write_starter(folder, kind=kind)  # type: ignore[arg-type]

    return write


FILM = {
    "four questions": (0, 1),
    "four rules from marked words": (1, 3),
    "five proposals judged": (1, 2),
    "twenty rows labeled": (2, 4),
    "training": (1, -1),
    "results": (-1,),
}
"""Which pictures of each step the moving picture has."""

PROJECTS = {
    "mails": (starter(""), True),
    "intents": (intents, True),
    "rare": (rare, True),
    "several": (starter("multi"), True),
    "spans": (starter("spans"), True),
    "million": (million, False),
}
"""How each project is written, and whether a run is part of it."""


def taken(name: str, folder: Path) -> list[Path]:
    """Take every page of a project on every screen."""
    write, has_run = PROJECTS[name]
    write(folder)
    screens = SCREENS | ({"wide": WIDE} if name == "intents" else {})
    found = []
    with served(folder) as (server, first):
        if has_run:
            _train(first, server.address)
        browser = first.context.browser
        for screen, how in screens.items():
            page = browser.new_context(**how).new_page()
            page.set_default_timeout(120_000)
            for title, address in PAGES.items():
                page.goto(server.address + address)
                if title == "label":
                    page.wait_for_selector(".label-person input")
                    page.fill(".label-person input", "ada")
                    page.press(".label-person input", "Enter")
                page.wait_for_selector(READY[address])
                page.wait_for_timeout(1_500)  # charts are drawn after their texts
                found.append(_kept(page, OUT / f"{name}-{title}-{screen}.png"))
            page.goto(server.address)
            page.wait_for_selector(READY["/"])
            page.click("tr.w-open >> nth=0")
            page.wait_for_selector(".q-dialog .row-text")
            page.wait_for_timeout(500)
            found.append(_kept(page, OUT / f"{name}-row-{screen}.png"))
            page.context.close()
    return found


def _train(page: Any, address: str) -> None:
    page.goto(f"{address}/train")
    page.click(".train-start:not([disabled])")
    page.wait_for_function(
        "/finished|failed/.test(document.querySelector('.train-state')?.innerText)"
    )


def _kept(page: Any, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=file, full_page="-row-" not in file.name)
    return file


def for_docs(folder: Path) -> None:
    """Write the pictures of docs/how-to/workbench.md from the project of the tutorial."""
    taken("mails", folder)
    for title in ("data", "row", "map", "lfs", "label", "results"):
        shutil.copyfile(OUT / f"mails-{title}-laptop.png", DOCS / f"workbench-{title}.png")


class Camera(Person):
    """Somebody who takes a picture of the page before each step instead of thinking."""

    def __init__(self, page: Any, truth: dict[str, str]) -> None:
        super().__init__(page, truth)
        self.frames: list[bytes] = []

    def think(self, seconds: float = 0.0) -> None:
        """Take a picture."""
        self.page.wait_for_timeout(700)  # charts and dialogs have moved into place
        self.frames.append(self.page.screenshot())


def film(folder: Path) -> None:
    """Write the moving picture of README.md: from a file of texts to a classifier."""
    import io

    from PIL import Image

    file, _gold, truth = reviews_file(folder, 2_000)
    pictures = []
    with served(file) as (server, page):
        page.set_viewport_size({"width": 1200, "height": 720})
        camera = Camera(page, truth)
        page.goto(server.address)
        for name, step in STEPS.items():
            camera.frames.clear()
            step(camera, page, server.address)
            camera.think()
            chosen = [camera.frames[place] for place in FILM[name] if place < len(camera.frames)]
            pictures += [Image.open(io.BytesIO(frame)).convert("RGB") for frame in chosen]
    small = [picture.resize((900, 540), Image.Resampling.LANCZOS) for picture in pictures]
    flat = [picture.quantize(64, dither=Image.Dither.NONE) for picture in small]
    flat[0].save(
        DOCS / "workbench.gif",
        save_all=True,
        append_images=flat[1:],
        duration=[1_600] * (len(flat) - 1) + [4_000],
        loop=0,
        optimize=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="make screenshots")
    parser.add_argument("projects", nargs="*", default=list(PROJECTS), help=", ".join(PROJECTS))
    parser.add_argument("--docs", action="store_true", help="write docs/images")
    parser.add_argument("--film", action="store_true", help="write docs/images/workbench.gif")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if options.docs:
            for_docs(Path(place) / "mails")
        if options.film:
            film(Path(place))
        for name in [] if options.docs or options.film else options.projects:
            try:
                files = taken(name, Path(place) / name)
            except RuntimeError as error:  # the workbench does not open it
                print(f"{name}: {error}")
                continue
            print(f"{name}: {len(files)} pictures in {OUT}")
