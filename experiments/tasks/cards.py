"""Facts about every base that need no data, and its number of tasks."""

from dataclasses import dataclass

from experiments.tasks.halves import BASE_HALVES, Half


@dataclass(frozen=True)
class Card:
    """A base: real items with gold from the training split of a data set."""

    name: str
    kind: str
    """text, table or image."""
    class_sizes: tuple[int, ...]
    features: tuple[str, ...]
    """The kinds of features, best first."""
    n_tasks: int
    folder: str | None = None
    """The folder in WIESEL_DATA; None for data that come with a package."""
    crossing: str | None = None
    """The name of another label of the same items, to form classes from both."""

    @property
    def half(self) -> Half:
        """The half that its tasks belong to."""
        return BASE_HALVES[self.name]

    @property
    def n_items(self) -> int:
        """The number of items."""
        return sum(self.class_sizes)

    @property
    def n_classes(self) -> int:
        """The number of classes of its own label."""
        return len(self.class_sizes)


TFIDF, EMBEDDED = ("tfidf",), ("minilm", "tfidf")

_CARDS = (
    Card("amazon_175", "text", (2700, 2800), TFIDF, 16, "amazon_175", "domain"),
    Card("amazon_domains", "text", (1397, 1356, 1384, 1363), TFIDF, 12, "amazon_175", "sentiment"),
    Card("sst2", "text", (3067, 3353), TFIDF, 12, "sst2"),
    Card("sentiment_crowd", "text", (2247, 2252), TFIDF, 10, "sentiment_crowd"),
    Card("sms", "text", (3923, 579), EMBEDDED, 16, "sms"),
    Card("agnews", "text", (2968, 3271, 3054, 2707), EMBEDDED, 22, "agnews"),
    Card("hausa", "text", (315, 434, 449, 284, 563), TFIDF, 14, "hausa"),
    Card(
        "music_genre",
        "table",
        (57, 62, 63, 62, 54, 61, 64, 55, 60, 62),
        ("columns",),
        8,
        "music_genre",
    ),
    Card("digits", "image", (178, 182, 177, 183, 181, 182, 181, 179, 174, 180), ("pixels",), 12),
    Card("imdb_136", "text", (12500, 12500), TFIDF, 16, "imdb_136"),
    Card("movie_reviews", "text", (10000, 10000), TFIDF, 12),
    Card("youtube", "text", (755, 831), EMBEDDED, 14, "youtube"),
    Card("trec", "text", (1043, 1152, 1113, 79, 752, 826), EMBEDDED, 24, "trec"),
    Card("vader_tweets", "text", (775, 401, 1659), TFIDF, 20, "vader_tweets"),
    Card("spambase", "table", (1952, 1269), ("columns",), 18, "spambase"),
    Card(
        "labelme",
        "image",
        (89, 116, 131, 110, 138, 134, 128, 154),
        ("network", "pixels"),
        16,
        "labelme",
    ),
)
CARDS: dict[str, Card] = {card.name: card for card in _CARDS}
