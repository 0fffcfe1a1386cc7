"""What a person would write down about movie reviews in half an hour, before looking at data.

Every labeling function is one idea: a group of words, a turn of phrase, or a grade.
"""

from wiesel import keywords, labeling_function, regex

POSITIVE = {
    "superb": ["superb", "superbly", "magnificent", "exquisite"],
    "excellent": ["excellent", "excellently"],
    "brilliant": ["brilliant", "brilliantly", "brilliance"],
    "wonderful": ["wonderful", "wonderfully", "marvelous"],
    "amazing": ["amazing", "amazingly", "astonishing"],
    "fantastic": ["fantastic", "terrific"],
    "perfect": ["perfect", "perfectly", "flawless"],
    "masterpiece": ["masterpiece", "masterful", "a classic"],
    "outstanding": ["outstanding", "exceptional", "extraordinary"],
    "love": ["i loved", "i love this", "loved it", "loved this"],
    "enjoyed": ["enjoyed", "enjoyable", "i enjoyed"],
    "favorite": ["favorite", "favourite"],
    "recommend": ["highly recommend", "highly recommended", "strongly recommend"],
    "must see": ["must see", "must-see", "don't miss", "do not miss"],
    "touching": ["touching", "moving", "heartwarming", "heart-warming"],
    "beautiful": ["beautiful", "beautifully", "gorgeous", "stunning"],
    "hilarious": ["hilarious", "laugh out loud", "laughed out loud", "very funny"],
    "gripping": ["gripping", "captivating", "riveting", "suspenseful"],
    "charming": ["charming", "delightful", "delight"],
    "powerful": ["powerful", "unforgettable", "memorable"],
    "great acting": ["great acting", "well acted", "great performance", "great cast"],
    "great film": ["great movie", "great film", "good movie", "good film"],
    "pleasant surprise": ["pleasantly surprised", "underrated", "hidden gem"],
}

NEGATIVE = {
    "terrible": ["terrible", "terribly", "horrible", "horribly"],
    "awful": ["awful", "awfully", "dreadful", "atrocious"],
    "worst": ["worst", "the worst", "worse"],
    "bad": ["bad", "really bad", "so bad"],
    "boring": ["boring", "bored", "tedious", "dull"],
    "waste": ["waste", "wasted", "waste of time", "waste of money"],
    "stupid": ["stupid", "dumb", "idiotic", "moronic"],
    "ridiculous": ["ridiculous", "laughable", "ludicrous"],
    "poor": ["poor", "poorly"],
    "lame": ["lame", "pathetic", "pointless"],
    "disappointing": ["disappointing", "disappointed", "disappointment"],
    "garbage": ["garbage", "crap", "trash", "rubbish"],
    "mess": ["a mess", "incoherent", "makes no sense", "made no sense"],
    "predictable": ["predictable", "cliche", "cliched", "unoriginal"],
    "unconvincing": ["unconvincing", "unbelievable", "wooden", "fake"],
    "bad acting": ["bad acting", "terrible acting", "poor acting", "awful acting"],
    "no plot": ["no plot", "no story", "plot holes", "thin plot"],
    "avoid": ["avoid", "stay away", "skip it", "don't bother"],
    "annoying": ["annoying", "irritating", "unbearable"],
    "fails": ["fails", "failed to", "failure"],
    "save your money": ["save your money", "want my money back", "hours of my life"],
    "cheap": ["cheap", "low budget", "amateurish"],
    "supposed to": ["supposed to be", "was supposed"],
    "forgettable": ["forgettable", "mediocre", "uninspired", "bland"],
}


@labeling_function
def many_exclamations_after_praise(row, exclamations=3):
    """Praise and exclamation marks together are meant."""
    text = row["text"].lower()
    praise = "great" in text or "best" in text
    return "positive" if praise and text.count("!") >= exclamations else None


lfs = [
    *(keywords("positive", words, column="text", name=name) for name, words in POSITIVE.items()),
    *(keywords("negative", words, column="text", name=name) for name, words in NEGATIVE.items()),
    regex("positive", r"(?i)\b(8|9|10)\s*(/|out of)\s*10\b", column="text", name="grade 8 to 10"),
    regex("negative", r"(?i)\b[1-4]\s*(/|out of)\s*10\b", column="text", name="grade 1 to 4"),
    regex("negative", r"(?i)\bnot (worth|funny|good|even)\b", column="text", name="not good"),
    many_exclamations_after_praise,
]
