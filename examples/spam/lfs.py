"""Labeling functions for comments below videos."""

from wiesel import keywords, labeling_function, regex

channel = keywords("spam", ["my channel", "subscribe", "check out"], column="text")
money = keywords("spam", ["free", "giveaway", "earn", "gift card"], column="text")
link = regex("spam", r"https?://|www\.|\.com\b", column="text", name="link")
music = keywords("ham", ["song", "voice", "chorus", "melody", "lyrics"], column="text")


@labeling_function
def short_comment(row):
    return "ham" if len(row["text"].split()) < 6 else None


@labeling_function
def shouting(row):
    letters = [sign for sign in row["text"] if sign.isalpha()]
    capitals = sum(sign.isupper() for sign in letters)
    return "spam" if letters and capitals / len(letters) > 0.5 else None
