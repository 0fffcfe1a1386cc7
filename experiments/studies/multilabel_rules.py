"""Amazon reviews with six labels, and the labeling functions of the study `multilabel`.

Texts, stars and shop departments are those of the shared data set amazon_175 (Blitzer et al. 2007).
An item's labels are its department (`book`, `film`, `electronics`, `kitchen`), `media` for books
and films, and `praise` where the customer gave four or five stars (the corpus leaves three out).
The labeling functions were written from general knowledge and committed before anything was
trained; the gold labels and the department are not in the rows they see.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from wiesel import keywords, load_dataset, regex
from wiesel.multilabel import (
    MultiLabelFunction,
    MultiLabelVotes,
    against,
    apply_multilabel_lfs,
    exhaustive,
    multilabel_function,
)
from wiesel.multilabel.functions import as_multilabel_lfs

LABELS = ("book", "film", "electronics", "kitchen", "media", "praise")
PRODUCT = LABELS[:5]
_DOMAINS = {
    "books": "book",
    "dvd": "film",
    "electronics": "electronics",
    "kitchen_&_housewares": "kitchen",
}
_WORDS = {
    "book": "book books author authors novel novels chapter chapters read reader readers pages",
    "film": "film films movie movies dvd actor actors actress cast scene scenes director",
    "electronics": "battery batteries charger usb cable cables computer laptop headphones speakers "
    "ipod mp3 radio camera lens phone router tv software",
    "kitchen": "pan pans pot pots skillet oven knife knives coffee tea blender mixer cook cooking "
    "bake baking kitchen dishwasher vacuum toaster bowl",
}


class Part(NamedTuple):
    """One split: features, votes, and the labels of every review."""

    X: npt.NDArray[np.float32]
    votes: MultiLabelVotes
    gold: npt.NDArray[np.int64]


@multilabel_function(exhaustive=PRODUCT)
def department(row):
    """Two words or more of one department and none of another: that one, and no other."""
    words = set(row["text"].lower().replace(",", " ").replace(".", " ").split())
    counts = {name: len(words & set(own.split())) for name, own in _WORDS.items()}
    found = [name for name, count in counts.items() if count]
    if len(found) != 1 or counts[found[0]] < 2:
        return None
    return {*found, "media"} if found[0] in ("book", "film") else set(found)


@multilabel_function
def stars(row):
    """The stars that the text itself speaks of."""
    text = row["text"].lower()
    if any(words in text for words in ("five stars", "5 stars", "four stars", "4 stars")):
        return {"praise"}
    if any(words in text for words in ("one star", "1 star", "zero stars", "two stars")):
        return {"praise": False}
    return None


def _about(label: str, words: str, name: str) -> object:
    return keywords(label, words.split("|"), column="text", name=name)


def rules() -> list[MultiLabelFunction]:
    """Return the labeling functions."""
    gadgets = "battery|batteries|charger|usb|cable|cables|headphones|speakers|router"
    pans = "pan|pans|pot|pots|skillet|oven|knife|knives|blender|dishwasher"
    return as_multilabel_lfs(
        [
            department,
            stars,
            exhaustive(
                _about("book", "author|novel|chapter|chapters|paperback", "book_parts"),
                ["film", "electronics", "kitchen"],
            ),
            _about("book", "book|books", "book_itself"),
            _about("book", "read|reading|reader|readers", "book_reading"),
            exhaustive(
                _about("film", "film|films|movie|movies|actor|actors|actress", "film_itself"),
                ["book", "electronics", "kitchen"],
            ),
            _about("film", "dvd|disc|discs|vhs", "film_disc"),
            _about("film", "scene|scenes|director|acting|cast|watch|watching", "film_watching"),
            exhaustive(_about("electronics", gadgets, "gadget_parts"), ["book", "film", "media"]),
            _about("electronics", "computer|laptop|software|driver|drivers", "gadget_computer"),
            _about("electronics", "sound quality|ipod|mp3|radio|stereo|bass", "gadget_sound"),
            _about("electronics", "camera|lens|photos|phone|tv|remote|screen", "gadget_picture"),
            exhaustive(_about("kitchen", pans, "kitchen_ware"), ["book", "film", "media"]),
            _about("kitchen", "coffee|tea|brew|cups|mug|toaster|toast", "kitchen_breakfast"),
            _about("kitchen", "cook|cooking|food|bake|baking|kitchen|recipe", "kitchen_cooking"),
            _about("kitchen", "sheets|towel|towels|pillow|vacuum|mattress", "kitchen_house"),
            _about("media", "story|stories|characters|plot|ending|fiction", "media_story"),
            _about("media", "history|biography|season|episode|episodes|series", "media_kinds"),
            against(_about("media", f"{gadgets}|{pans}|warranty|plastic", "media_not")),
            against(_about("book", "watch|watching|warranty|plug|machine", "book_not")),
            against(_about("film", "pages|warranty|plug|machine", "film_not")),
            against(_about("kitchen", "book|movie|film|computer|camera", "kitchen_not")),
            against(_about("electronics", "book|movie|film|kitchen|recipe", "electronics_not")),
            _about("praise", "great|excellent|perfect|perfectly|wonderful|amazing", "good_words"),
            _about("praise", "love|loved|loves|favorite|best|enjoyed|awesome", "love_words"),
            regex(
                "praise", r"(?i)highly recommend|must (have|see|read)", column="text", name="must"
            ),
            _about("praise", "easy to use|works great|works well|happy with|pleased", "content"),
            against(
                _about("praise", "waste|terrible|horrible|awful|worst|poor|poorly", "bad_words")
            ),
            against(_about("praise", "disappointed|disappointing|disappointment", "disappointed")),
            against(_about("praise", "return|returned|refund|broke|broken|junk", "returned")),
            against(_about("praise", "boring|dull|save your money|don't buy|do not buy", "avoid")),
        ]
    )


@cache
def part(split: str) -> Part:
    """Return `train`, `valid` or `test`."""
    reviews = load_dataset("amazon_175", standardize=True).splits[split]
    votes = apply_multilabel_lfs(
        rules(), reviews.rows.select("id", "text"), labels=LABELS, ids="id"
    )
    names = reviews.rows["domain"].replace_strict(_DOMAINS)
    columns = {name: (names == name).cast(pl.Int64).to_numpy() for name in LABELS[:4]}
    columns["media"] = columns["book"] + columns["film"]
    columns["praise"] = reviews.gold
    gold = np.stack([columns[name] for name in LABELS], axis=1)
    return Part(np.asarray(reviews.features), votes, gold)
