"""The words and patterns by which the answers of language models are read."""

import re

__all__ = [
    "ANSWER_KEYS",
    "BOTH",
    "CLAUSE",
    "CORRECTION",
    "DENIED_AFTER",
    "FENCED",
    "FINAL",
    "MARKUP",
    "NEGATION",
    "NESTED",
    "NO",
    "READ",
    "REASON",
    "REFUSAL",
    "SILENT",
    "THOUGHT_END",
    "THOUGHT_START",
    "TYPOGRAPHIC",
    "WEAK",
    "YES",
    "YES_NO",
]

THOUGHT_START = re.compile(
    r"<(?:think|thinking|thought|reasoning|scratchpad)>|\[think\]|<\|channel\|>analysis",
    re.I,
)
THOUGHT_END = re.compile(
    r"</(?:think|thinking|thought|reasoning|scratchpad)>|\[/think\]|<\|channel\|>final|assistantfinal",
    re.I,
)
MARKUP = re.compile(r"<\|[^|>]{1,40}\|>|</?s>|<(?:end|start)_of_turn>|\[/?INST\]")
FENCED = re.compile(r"```(?:json|\w*)\s*\n?(.*?)```", re.S)
READ = 2_000
"""Characters that are read at the start and at the end of a long answer."""
NESTED = 3
"""Levels of lists and objects around a value in JSON."""
TYPOGRAPHIC = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014\u2212\u2011\u00a0", "''\"\"---- ")

SILENT = {
    *("abstain", "none", "unknown", "unsure", "n/a", "na", "null", "undecided", "undetermined"),
    *("none of the above", "none of these", "neither", "not sure", "i'm not sure", "i am not sure"),
    *("i don't know", "i do not know", "unclear", "cannot determine", "cannot be determined"),
    *("insufficient information", "not applicable", "i abstain", "cannot tell"),
}
YES, NO = {"yes", "true", "y", "yeah", "yep", "correct"}, {"no", "false", "n", "nope"}
WEAK = {*YES, *NO, *SILENT, "other", "not", "others"}
"""Words that are a class only where they stand for the whole answer, or at its start or end."""
ANSWER_KEYS = (
    *("final_answer", "answer", "label", "class", "category", "classification", "prediction"),
    *("predicted_label", "predicted_class", "result", "verdict", "decision", "choice", "vote"),
    *("sentiment", "output", "response", "rating"),
)
FINAL = re.compile(
    r"(?:^|[\s*_#(\"'>])(?:(?:my |the |so |thus |therefore,? )*(?:final |correct |best |most "
    r"likely |predicted |right |overall )*"
    r"(?:answer|label|class|category|classification|sentiment|prediction|verdict|decision|rating|"
    r"result|conclusion|output)(?: here| would be| should be)?"
    r"(?:[\"']?\s*\**\s*[:=]\s*\**|\s+is\s*:?)|answer\s*\n|\\boxed\s*(?=\{)|####)\s*",
    re.I,
)
YES_NO = re.compile(
    r"(yes|yeah|yep|true|no|nope|false)(?=$|\s*[.,:;!)\]}\"'*_\n]|\s+-|\s*\(|\s+(?:it|it's|this|that|the|"
    r"there|because|since|as|i|indeed|definitely|absolutely|clearly)\b)"
)
BOTH = re.compile(r"yes\s*(?:/|and|or|,)\s*no\b|no\s*(?:/|and|or|,)\s*yes\b")
NEGATION = re.compile(
    r"\b(?:not|no|non|none|never|neither|nor|without|hardly|barely|scarcely|cannot|unlikely|"
    r"isnt|doesnt|dont|wasnt|arent|cant|wont|nothing|nobody|nowhere|lacks?|lacking|excluded?|"
    r"excluding|except|unless|if|whether|doubt|doubtful|opposite|anything but|far from|rather than|"
    r"instead of|ruled? out|rules out|fails? to|too \w+ to|false|wrong|incorrect|inaccurate|"
    r"mistaken|untrue|absence|absent|denies|deny|denied|refutes?|contradicts?|ain't|zero|0 ?%)\b"
    r"|n't\b"
)
DENIED_AFTER = re.compile(
    r"\b(?:not|no|never|cannot|unlikely|wrong|incorrect|false|inaccurate|excluded|doubtful|"
    r"ruled out|would be|can be ruled|mistaken|does|do|if|unless)\b|n't\b|\b0(?:\.0+)?\b ?%?"
)
CORRECTION = re.compile(
    r"\b(?:actually|wait|correction|on second thought|scratch that|i mean|let me re|hmm|sorry|"
    r"or rather|no,|to be precise|apologies|my mistake|in fact)\b"
)
REFUSAL = re.compile(
    r"\b(?:i'?m sorry|i am sorry|i apologi[sz]e|as an ai|i (?:cannot|can't|can not|won't|will not|"
    r"am unable to|'m unable to|am not able to|'m not able to) (?:assist|help|provide|comply|"
    r"answer|classify|label|fulfill|process|engage|do that|judge|rate|respond)|i'm "
    r"(?:unable|not able) to|against (?:my|our) (?:guidelines|polic)|content polic)"
)
REASON = re.compile(
    r"\b(?:because|since|given that|due to|as it|as the|as there)\b"
    r"|, not (?:a|an|the|just|merely|only)\b"
)
"""Where a clause goes on with a reason, or with what the item is not."""
CLAUSE = re.compile(
    r"[.;!?\n]+(?:\s|$)|\n|(?<!anything)(?<!nothing),? but\b|, (?:it is|it's|this is)\b|\bhowever\b"
)
