# Made of tutorial.md by `make docs`: change the page, not this file.

# # Tutorial: from a folder of texts to a classifier
#
# You have a folder of texts and no labels. At the end of this page you have a classifier, figures that show how good it is, and a
# command that applies it to new texts. Reading takes half an hour; running all the code takes about a minute.
#
# Install Wiesel with the extra `demo`, which includes the texts. In a [copy](../../README.md) of the repository:
#
# ```console
# $ pip install torch==2.13.0
# $ pip install -e '.[demo]'
# ```
#
# Then go to an empty folder and run the blocks one after the other, in a notebook or in a Python session. You can also download
# this page as a [notebook](tutorial.ipynb) or as a [script](tutorial.py).
#
# ## 1. The texts
#
# The texts are 1,200 movie reviews. The first block writes them to a folder, because your own texts will be files, too.

from pathlib import Path

import polars as pl

from wiesel.datasets import load_movie_reviews

reviews = load_movie_reviews().train
folder = Path("reviews")
folder.mkdir(exist_ok=True)
for number, text in enumerate(reviews.texts[:1200]):
    _ = (folder / f"{number:04}.txt").write_text(text, encoding="utf-8")

# Read the folder into a table with one row per text:

files = sorted(folder.glob("*.txt"))
rows = pl.DataFrame(
    {"id": [file.stem for file in files], "text": [file.read_text("utf-8") for file in files]}
)
print(len(rows), "texts; the first one begins:", rows["text"][0][:60])

# ## 2. The first labeling functions
#
# A *labeling function* (LF) looks at one row and votes for a class, or abstains. It may be wrong now and then, but it must be
# right more often than chance. Write down what you would look for yourself:

from wiesel import apply_lfs, keywords, labeling_function, regex, summarize

classes = ["negative", "positive"]


@labeling_function
def shouting(row):
    return "positive" if row["text"].count("!") >= 4 else None


lfs = [
    keywords("positive", ["excellent", "wonderful", "superb"], column="text", name="praise"),
    keywords("positive", ["loved", "favorite", "enjoyed"], column="text", name="enjoyed"),
    keywords("positive", ["good"], column="text", name="good"),
    keywords("negative", ["awful", "terrible", "worst"], column="text", name="scorn"),
    keywords("negative", ["boring", "waste", "dull"], column="text", name="bored"),
    regex("negative", r"(?i)\b[1-4]\s*(/|out of)\s*10\b", column="text", name="low_grade"),
    shouting,
]
votes = apply_lfs(lfs, rows, labels=classes, ids="id")
print(votes)
print(summarize(votes))

# - *Coverage* is the share of rows on which an LF votes. Together, the seven LFs cover two thirds of the reviews.
# - *Overlap* is the share of rows on which another LF votes too. *Conflict* is the share on which another LF disagrees.
#
# ## 3. A few gold labels
#
# Without labels you cannot know how good an LF is. So label some rows by hand, in the [workbench](../how-to/workbench.md) or in
# a spreadsheet. Here we take 150; even 50 help. In this tutorial the true labels are known:

gold = [classes[index] for index in reviews.gold[:1200]]
dev, train, test = slice(0, 150), slice(150, 900), slice(900, 1200)
print(summarize(votes[dev], gold=gold[dev]))

# *Precision* is the share of an LF's votes that are right, with a 95 % interval in parentheses. *Support* is the number of votes
# behind it. Two LFs stand out. `good` is hardly better than a coin flip: people write "not good" and "a good idea, but".
# `shouting` is worse: angry people shout too.
#
# ## 4. Improve the labeling functions
#
# Before you change an LF, look at the rows on which it is wrong:

from wiesel.analysis import disagreements

wrong = disagreements(votes[dev], rows[dev], ["good"], gold=gold[dev])
for text in wrong["text"][:3]:
    place = text.lower().find("good")
    print("...", text[max(0, place - 40) : place + 30].replace("\n", " "))

# Let Wiesel suggest words that you did not think of. Nothing is added until you do it:

from wiesel import suggest_lfs

known = [label if i < 150 else None for i, label in enumerate(gold)]
print(suggest_lfs(rows, votes, labels=classes, gold=known, column="text", n=6))

# Replace `good` with something more specific, drop `shouting`, and add LFs that the suggestions inspire:

lfs = [
    *(lf for lf in lfs if lf.name not in ("good", "shouting")),
    keywords("positive", ["very good", "great", "best"], column="text", name="very_good"),
    keywords("positive", ["amazing", "perfect", "must see"], column="text", name="amazing"),
    regex("negative", r"(?i)\bnot (good|funny|worth|even)\b", column="text", name="not_good"),
    keywords("negative", ["bad", "poor", "stupid", "nothing"], column="text", name="bad"),
]
votes = apply_lfs(lfs, rows, labels=classes, ids="id")
print(summarize(votes[dev], gold=gold[dev]))

# Coverage grew from 65 % to 81 %, and no LF looks like a coin flip anymore. The intervals are still wide, because 150 labels are few.
# Repeat this step until the precisions look right and coverage stops growing. This loop is most of the work in weak supervision.
#
# ## 5. Train
#
# Networks need numbers, so turn the texts into vectors first. Then pass vectors and votes to `Committee`, the default method. Its
# network can be any `torch.nn.Module`. The labeled rows are validation data: they select the epoch, the decision threshold and
# the weight of each member of the committee. One member, `gold`, also learns from them.

from wiesel import Committee, TextFeatures, evaluate
from wiesel.nn import MLP

features = TextFeatures("tfidf", n_dimensions=50)
X = features.fit_transform(rows["text"])
model = Committee(MLP(X.shape[1], 2), epochs=8)
model = model.fit(X[train], votes[train], validation=(X[dev], gold[dev], votes[dev]))
for name, weight in model.member_weights_.items():
    print(f"{name:16} {weight:.0%}")

# Each member estimates labels from the votes in its own way and trains networks on them. [Choose a
# method](../how-to/methods.md#the-committee) explains all five. Here `feature_em`, which also uses the vectors, gets the largest weight.
#
# ## 6. How good is it?
#
# Evaluate it on rows that have not been used so far. Your figures will differ a little from those below, because networks start
# from random weights:

print(evaluate(model, X[test], gold[test]))

# How to read the report:
#
# - *ROC-AUC* measures ranking: the probability that a random positive review gets a higher score than a random negative one.
# - *The confusion table* counts the errors: negative reviews predicted as positive, and the reverse.
# - *The decision threshold* in the first line was tuned for F1 on the 150 labeled rows.
# - *The intervals* show the uncertainty. 300 test rows cannot distinguish 75 % from 80 %.
#
# You can choose the threshold yourself. If a false positive costs more than a missed positive, raise it:

import numpy as np

sure = model.predict_proba(X[test])[:, 1] >= 0.8
truly = np.array(gold[test]) == "positive"
print(f"{sure.sum()} reviews are predicted positive; {truly[sure].mean():.0%} of them are")

# More texts and more LFs help most. In the clone, `make demo` does the same with 20,000 reviews, 51 LFs and 250 gold labels.
#
# ## 7. Explain a prediction
#
# Take the review with the clearest votes and see what each LF contributed:

clear = int(np.ptp(votes[test].counts(), axis=1).argmax())
print(model.explain(X[test][clear], votes[test][clear]))

# The first line compares two answers: the network's, which depends only on the text, and the soft label, which depends on the
# votes. The bars show the effect of each LF. The last line shows the soft label of each member of the committee. Rows where network and
# votes disagree are worth reading: either the network learned something that the LFs miss, or an LF is wrong.
#
# ## 8. Use it
#
# Save the model. The folder contains data only, no code. You can copy it to another machine:

from wiesel import load_model

model.save("review-model")
again = load_model("review-model")
print(again.predict(features.transform(["A wonderful film. I loved every minute."])))

# For daily use, make it a project: a folder with the texts as CSV files, the LFs in `lfs.py` or `rules.toml`, and a short
# `wiesel.toml` (all its settings are in the reference of the site). The next block writes these files. You would use an editor.

project = Path("review-project")
project.mkdir(exist_ok=True)
rows[train].write_csv(project / "train.csv")
rows[dev].with_columns(label=pl.Series(gold[dev])).write_csv(project / "dev.csv")
rows[test].write_csv("new.csv")
_ = (project / "wiesel.toml").write_text(
    """
classes = ["negative", "positive"]

[data]
train = "train.csv"
dev = "dev.csv"

[votes]
lfs = ["lfs.py"]

[features]
kind = "tfidf"
n_dimensions = 50
"""
)
_ = (project / "lfs.py").write_text(
    r"""
from wiesel import keywords, regex

LFS = [
    keywords("positive", ["excellent", "wonderful", "superb"], column="text", name="praise"),
    keywords("positive", ["loved", "favorite", "enjoyed"], column="text", name="enjoyed"),
    keywords("positive", ["very good", "great", "best"], column="text", name="very_good"),
    keywords("positive", ["amazing", "perfect", "must see"], column="text", name="amazing"),
    keywords("negative", ["awful", "terrible", "worst"], column="text", name="scorn"),
    keywords("negative", ["boring", "waste", "dull"], column="text", name="bored"),
    keywords("negative", ["bad", "poor", "stupid", "nothing"], column="text", name="bad"),
    regex("negative", r"(?i)\bnot (good|funny|worth|even)\b", column="text", name="not_good"),
    regex("negative", r"(?i)\b[1-4]\s*(/|out of)\s*10\b", column="text", name="low_grade"),
]
"""
)

# Leave Python. On the command line, `wiesel run` repeats everything above and writes a report, `review-project/out/report.html`.
# `wiesel predict` classifies new texts:
#
# ```console
# $ wiesel run review-project
# $ wiesel predict review-project/out/model new.csv -o predictions.csv
# ```
#
# Open the report in a browser. It shows how good the model is, what each LF does, and which rows to look at next:
#
# ![The first page of the report: how good the model is](../images/report.png)
#
# ## Where to go next
#
# - [Write good labeling functions](../how-to/labeling-functions.md): they matter more than the method.
# - [Choose a method](../how-to/methods.md) other than the default.
# - [Put a model into production](../how-to/production.md).
# - [All methods in formulas](../understand/methods.md).
