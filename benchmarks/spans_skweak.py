"""The same texts and lists with skweak: gazetteers, patterns, and its HMM.

It runs in the environment of `benchmarks.peers.ensure_skweak`, which does not have Wiesel; texts
and functions come as data from `benchmarks.spans`.
"""

import json
import re
import resource
import sys
import time
from collections.abc import Iterator
from typing import Any

LABELS = ("PER", "LOC", "ORG", "MISC")


def measure(given: dict[str, Any]) -> dict[str, Any]:
    """Return the time for tokenizing, voting and the model."""
    import skweak
    import spacy
    from skweak.gazetteers import GazetteerAnnotator, Trie
    from skweak.generative import HMM

    tokenizer = spacy.blank("en")
    tokenizer.max_length = 10**9
    annotators: list[Any] = []
    for each in given["functions"]:
        if "pattern" in each:
            annotators.append(_pattern(skweak, each))
            continue
        trie = Trie([entry.split() for entry in each["entries"]])
        annotators.append(
            GazetteerAnnotator(each["name"], {each["label"]: trie}, case_sensitive=each["exact"])
        )
    times = [time.process_time()]
    documents = [tokenizer.make_doc(text) for text in given["texts"]]
    times.append(time.process_time())
    for annotator in annotators:
        documents = [annotator(document) for document in documents]
    times.append(time.process_time())
    model = HMM("hmm", list(LABELS))
    model.fit(documents, n_iter=given["steps"])
    documents = [model(document) for document in documents]
    times.append(time.process_time())
    return {
        "n_tokens": sum(map(len, documents)),
        "n_spans": sum(len(document.spans["hmm"]) for document in documents),
        "tokenize_seconds": times[1] - times[0],
        "apply_seconds": times[2] - times[1],
        "hmm_seconds": times[3] - times[2],
        "total_seconds": times[3] - times[0],
        "steps": given["steps"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _pattern(skweak: Any, each: dict[str, Any]) -> Any:
    compiled = re.compile(each["pattern"])

    def found(document: Any) -> Iterator[tuple[int, int, str]]:
        for match in compiled.finditer(document.text):
            span = document.char_span(*match.span())
            if span is not None:
                yield span.start, span.end, each["label"]

    return skweak.heuristics.FunctionAnnotator(each["name"], found)


if __name__ == "__main__":
    print(json.dumps(measure(json.loads(sys.stdin.read()))))
