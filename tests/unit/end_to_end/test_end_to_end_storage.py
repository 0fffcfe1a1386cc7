"""Saved models: every method comes back as it was, and nothing else comes in."""

import dataclasses
import inspect
import json
import os
import pickle
import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from forged_models import manifest_of, rewrite
from safetensors.torch import load, save
from tiny_task import ONE_PASS, VOTES_ONLY, linear, same_weights, tiny_task, weasel, weights_of
from torch import Tensor, nn

from wiesel import (
    Committee,
    MajorityVote,
    Supervised,
    TwoStage,
    VoteMatrix,
    WeaSEL,
    load_model,
)
from wiesel.catalog import METHODS
from wiesel.end_to_end import EndToEndModel
from wiesel.end_to_end.evidence_models import EvidenceLabelModel
from wiesel.errors import ParameterError, SavedModelError, WieselWarning
from wiesel.nn import CNN, LSTM, MLP, Linear
from wiesel.spans import Documents, HiddenMarkov, TokenVotes, apply_span_lfs, gazetteer

pytestmark = pytest.mark.filterwarnings("ignore::wiesel.errors.WieselWarning")

QUICK = {**ONE_PASS, "epochs": 1, "lr": 0.01, "batch_size": 16}


def token_votes() -> TokenVotes:
    """Votes on the words of a few texts."""
    documents = Documents.from_texts(["Ada met Bob", "so Bob met Ada in Bath", "nobody"])
    names = gazetteer("PER", ["Ada", "Bob"], name="names")
    functions = [names, gazetteer("LOC", ["Bath"], name="places")]
    return apply_span_lfs(functions, documents, labels=["PER", "LOC"])


def fitted(name: str) -> Any:
    """A quickly fitted model of a registered method, with a shipped end model."""
    X, votes, gold = tiny_task()
    if name == "hidden_markov":
        return HiddenMarkov().fit(token_votes())
    cls, needs = METHODS[name].cls, METHODS[name].needs
    if needs == "votes":
        return cls().fit(votes)
    if issubclass(cls, EvidenceLabelModel):
        return cls().fit(votes, X=X, gold=(votes, gold))
    if needs == "features and gold":
        return cls(Linear(3, 2), labels=votes.labels, **QUICK).fit(X, gold, validation=(X, gold))
    first = [MajorityVote()] if "label_model" in inspect.signature(cls).parameters else []
    return cls(*first, MLP(3, 2, hidden=(4,)), **QUICK).fit(X, votes, validation=(X, gold))


def answers(model: Any) -> dict[str, Any]:
    """Everything a user can ask of a fitted model."""
    X, votes, _ = tiny_task()
    if isinstance(model, HiddenMarkov):
        votes = token_votes()
        return {"proba": model.predict_proba(votes), "spans": np.array(str(model.predict(votes)))}
    if not isinstance(model, EndToEndModel):
        return {"proba": model.predict_proba(votes), "labels": model.predict(votes)}
    found = {"proba": model.predict_proba(X), "labels": model.predict(X)}
    if hasattr(model, "soft_labels"):
        found["soft_labels"] = model.soft_labels(X, votes)
    if hasattr(model, "accuracies"):
        found["accuracies"] = model.accuracies(X, votes)
    if hasattr(model, "explain"):
        found["explanation"] = np.array(str(model.explain(X[3], votes[3])))
    return found


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_registered_method_comes_back_as_it_was(name: str, tmp_path: Path):
    model = fitted(name)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    before, after = answers(model), answers(loaded)
    assert before.keys() == after.keys()
    for question in before:
        assert np.array_equal(before[question], after[question]), question
    assert (loaded.labels_, loaded.voters_) == (model.labels_, model.voters_)
    learned = [name for name in model.learned_names() if hasattr(model, name)]
    assert [name for name in learned if not hasattr(loaded, name)] == []


@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_comes_back_can_be_saved_again_and_fitted_again(name: str, tmp_path: Path):
    fitted(name).save(tmp_path / "first")
    loaded = load_model(tmp_path / "first")
    loaded.save(tmp_path / "second")
    first, second = manifest_of(tmp_path / "first"), manifest_of(tmp_path / "second")
    assert first["parameters"] == second["parameters"]
    assert first["files"].keys() == second["files"].keys()
    arrays = [file for file in first["files"] if file.endswith(".safetensors")]
    assert len(arrays) > 0
    assert all(first["files"][file] == second["files"][file] for file in arrays)
    X, votes, gold = tiny_task()
    if isinstance(loaded, EvidenceLabelModel):
        loaded.fit(votes, X=X, gold=(votes, gold))
    elif not isinstance(loaded, EndToEndModel):
        loaded.fit(token_votes() if isinstance(loaded, HiddenMarkov) else votes)
    else:
        loaded.fit(X, gold if isinstance(loaded, Supervised) else votes)
    assert np.isfinite(answers(loaded)["proba"]).all()


class OwnEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(15, 4)

    def forward(self, encoded: Tensor) -> Tensor:
        return self.layer(encoded)


class TestModules:
    def test_shipped_end_models_need_no_argument(self, tmp_path: Path):
        _, votes, _ = tiny_task()
        texts = torch.arange(48 * 5).view(48, 5) % 9
        images = np.linspace(-1, 1, 48 * 16, dtype=np.float32).reshape(48, 1, 4, 4)
        for net, inputs in (
            (LSTM(vocabulary=9, n_classes=2, embedding=3, hidden=2, head=(3,)), texts),
            (CNN(1, 2, filters=(2, 2)), images),
        ):
            model = weasel(net, encoder=VOTES_ONLY).fit(inputs, votes)
            model.save(tmp_path / type(net).__name__)
            loaded = load_model(tmp_path / type(net).__name__)
            assert type(loaded.end_model_) is type(net)
            assert np.array_equal(loaded.predict_proba(inputs), model.predict_proba(inputs))

    def test_sizes_given_as_numpy_numbers_can_be_saved(self, tmp_path: Path):
        X, votes, _ = tiny_task()
        net = MLP(np.int64(3), np.int64(2), hidden=(np.int64(4),))
        weasel(net).fit(X, votes).save(tmp_path / "model")
        assert load_model(tmp_path / "model").predict_proba(X).shape == (48, 2)

    def test_a_module_of_your_own_must_be_given(self, tmp_path: Path):
        X, votes, _ = tiny_task()
        model = weasel(linear()).fit(X, votes)
        model.save(tmp_path / "model")
        with pytest.raises(SavedModelError, match=r"load_model\(path, end_model=net\)"):
            load_model(tmp_path / "model")
        net = linear(seed=9)
        before = weights_of(net)
        loaded = load_model(tmp_path / "model", end_model=net)
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
        assert same_weights(weights_of(net), before), "the user's module was filled"
        assert not loaded.end_model_.training

    def test_an_encoder_of_your_own_must_be_given_too(self, tmp_path: Path):
        X, votes, _ = tiny_task()
        model = weasel(Linear(3, 2), encoder=OwnEncoder()).fit(X, votes)
        model.save(tmp_path / "model")
        with pytest.raises(SavedModelError, match="encoder=net"):
            load_model(tmp_path / "model")
        loaded = load_model(tmp_path / "model", encoder=OwnEncoder())
        assert np.array_equal(loaded.soft_labels(X, votes), model.soft_labels(X, votes))
        with pytest.raises(SavedModelError, match=r"15 numbers|do not fit the encoder|4 scores"):
            load_model(tmp_path / "model", encoder=nn.Linear(9, 4))

    def test_another_architecture_is_refused_with_both_shapes(self, tmp_path: Path):
        X, votes, _ = tiny_task()
        weasel(linear()).fit(X, votes).save(tmp_path / "model")
        words = r"do not fit the end_model.*stored \(2, 3\), the module has \(2, 5\)"
        with pytest.raises(SavedModelError, match=words):
            load_model(tmp_path / "model", end_model=nn.Linear(5, 2))
        with pytest.raises(SavedModelError, match="stored nothing"):
            load_model(tmp_path / "model", end_model=nn.Sequential(nn.Linear(3, 2)))

    def test_what_is_no_module_is_refused(self, tmp_path: Path):
        X, votes, _ = tiny_task()
        weasel().fit(X, votes).save(tmp_path / "model")
        with pytest.raises(ParameterError, match=r"end_model must be a torch\.nn\.Module"):
            load_model(tmp_path / "model", end_model="MLP")
        with pytest.raises(ParameterError, match=r"encoder must be a torch\.nn\.Module"):
            load_model(tmp_path / "model", encoder=nn.Linear)

    def test_tied_weights_are_saved_and_filled(self, tmp_path: Path):
        class Tied(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
                self.second.weight = self.first.weight
                self.head = nn.Linear(3, 2)

            def forward(self, features: Tensor) -> Tensor:
                return self.head(self.second(self.first(features).relu()))

        X, votes, _ = tiny_task()
        model = weasel(Tied()).fit(X, votes)
        model.save(tmp_path / "model")
        loaded = load_model(tmp_path / "model", end_model=Tied())
        assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))


class TestFolder:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        fitted("weasel").save(tmp_path / "model")
        return tmp_path / "model"

    def test_it_holds_a_manifest_weights_history_and_a_card(self, folder: Path):
        assert sorted(file.name for file in folder.iterdir()) == [
            "CARD.md",
            "history.json",
            "manifest.json",
            "weights.safetensors",
        ]
        manifest = manifest_of(folder)
        assert manifest["format"] == 1
        assert manifest["class"] == "WeaSEL"
        assert manifest["labels"] == ["class_0", "class_1"]
        assert manifest["voters"] == [f"voter_{j}" for j in range(4)]
        assert manifest["parameters"]["epochs"] == 1
        assert manifest["selection"]["by"] == "auc"
        assert manifest["trained_on"]["items"] == tiny_task().votes.covered.sum()
        assert {"wiesel", "torch", "python", "threshold", "learned"} <= manifest.keys()
        assert len(json.loads((folder / "history.json").read_text())["records"]) == 1

    def test_the_card_tells_a_person_what_it_is(self, folder: Path):
        card = (folder / "CARD.md").read_text()
        for words in ("# WeaSEL model", "`class_0`, `class_1`", "4 voters", "best validation auc"):
            assert words in card
        assert "load_model(" in card

    def test_names_in_the_card_cannot_become_markup(self, tmp_path: Path):
        markdown = pytest.importorskip("markdown")
        X, votes, _ = tiny_task()
        evil = ["ham`<img src=x onerror=alert(1)>`", "```<b>spam</b>"]
        voters = [f"{k}``<img src=x>\n\n<script>alert(1)</script>" for k in range(4)]
        hostile = VoteMatrix.from_dense(votes.dense(), evil, voters)
        model = TwoStage(MajorityVote(), Linear(3, 2), **QUICK).fit(X, hostile)
        model.save(tmp_path / "model")
        card = (tmp_path / "model" / "CARD.md").read_text()
        shown = markdown.markdown(card, extensions=["fenced_code"])
        tags = set(re.findall(r"<(\w+)", shown))
        assert tags <= {"h1", "h2", "p", "ul", "li", "code", "pre"}
        assert "onerror=alert(1)" in shown

    def test_the_card_of_a_model_without_votes_or_validation_says_so(self, tmp_path: Path):
        X, votes, gold = tiny_task()
        model = Supervised(Linear(3, 2), labels=votes.labels, **QUICK).fit(X, gold)
        model.save(tmp_path / "model")
        card = (tmp_path / "model" / "CARD.md").read_text()
        assert "items with gold labels" in card
        assert "there was no validation set" in card

    def test_no_file_is_a_pickle(self, folder: Path):
        files = list(folder.iterdir())
        for file in files:
            with pytest.raises(
                (pickle.UnpicklingError, ValueError, EOFError, KeyError, IndexError)
            ):
                pickle.loads(file.read_bytes())  # noqa: S301 - that it is none is the point
        assert len(files) == 4

    def test_the_options_of_a_model_trained_elsewhere_are_kept(self, folder: Path):
        """A model trained on a GPU loads where there is none."""
        rewrite(folder, lambda manifest: manifest["parameters"].update(device="cuda"))
        assert load_model(folder).device == "cuda"

    def test_options_that_are_arrays_tuples_and_label_spaces_come_back(self, tmp_path: Path):
        X, votes, gold = tiny_task()
        balance = np.array([0.25, 0.75])
        model = weasel(Linear(3, 2), encoder=(4, 3), class_balance=balance).fit(X, votes)
        model.save(tmp_path / "weasel")
        loaded = load_model(tmp_path / "weasel")
        assert loaded.encoder == (4, 3)
        assert np.array_equal(loaded.class_balance, balance)
        assert np.array_equal(loaded.class_balance_, balance)
        Supervised(Linear(3, 2), labels=votes.labels, **QUICK).fit(X, gold).save(tmp_path / "gold")
        assert load_model(tmp_path / "gold").labels == votes.labels

    def test_an_option_that_is_no_data_is_refused_when_saving(self, tmp_path: Path):
        model = fitted("weasel")
        model.progress = object()
        with pytest.raises(SavedModelError, match="object cannot be saved as data"):
            model.save(tmp_path / "model")
        assert not (tmp_path / "model").exists()


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One saved model for each kind of content."""
    root = tmp_path_factory.mktemp("saved")
    folders = {}
    for name in ("weasel", "two_stage", "majority_vote", "dawid_skene"):
        fitted(name).save(root / name)
        folders[name] = root / name
    return folders


def copied(saved: dict[str, Path], name: str, target: Path) -> Path:
    shutil.copytree(saved[name], target / name)
    return target / name


def remove(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: manifest.pop(key)


def replace(key: str, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda manifest: manifest.__setitem__(key, value)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


class Evil:
    """Unpickling this would write a file."""

    def __init__(self, witness: Path) -> None:
        self.witness = witness

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.witness),)


WRONG = [None, -1, 1e308, "text", [], [1], {"a": 1}, True, nested(40)]


class TestDamage:
    @pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
    @pytest.mark.parametrize("name", ["weasel", "two_stage", "dawid_skene"])
    def test_every_file_truncated_anywhere_is_noticed(self, saved, tmp_path, name, share):
        folder = copied(saved, name, tmp_path)
        files = [file for file in folder.iterdir() if file.stat().st_size > 8]
        for file in files:
            content = file.read_bytes()
            file.write_bytes(content[: int(share * len(content))])
            with pytest.raises(SavedModelError, match=rf"{file.name}"):
                load_model(folder)
            file.write_bytes(content)
        assert len(files) >= 2
        load_model(folder)

    @pytest.mark.parametrize("name", ["weasel", "dawid_skene"])
    def test_any_changed_byte_is_noticed(self, saved, tmp_path, name):
        folder = copied(saved, name, tmp_path)
        checked = 0
        for file in sorted(folder.iterdir()):
            content = file.read_bytes()
            for position in range(0, len(content), max(1, len(content) // 25)):
                changed = bytearray(content)
                changed[position] ^= 0x15
                file.write_bytes(bytes(changed))
                if file.name == "manifest.json" and same_json(content, bytes(changed)):
                    continue
                checked += 1
                with pytest.raises(SavedModelError):
                    load_model(folder)
            file.write_bytes(content)
        assert checked > 40

    @pytest.mark.parametrize("name", ["weasel", "two_stage", "majority_vote"])
    def test_a_missing_file_is_named(self, saved, tmp_path, name):
        folder = copied(saved, name, tmp_path)
        files = [file for file in folder.iterdir() if file.name != "manifest.json"]
        for file in files:
            content = file.read_bytes()
            file.unlink()
            with pytest.raises(SavedModelError, match=f"incomplete: {file.name} is missing"):
                load_model(folder)
            file.write_bytes(content)
        assert len(files) > 0

    def test_an_edit_of_the_manifest_is_noticed(self, saved, tmp_path):
        folder = copied(saved, "weasel", tmp_path)
        text = (folder / "manifest.json").read_text()
        (folder / "manifest.json").write_text(text.replace('"class_0"', '"class_9"', 1))
        with pytest.raises(SavedModelError, match="changed after the model was saved"):
            load_model(folder)

    def test_another_format_names_the_version_that_wrote_it(self, saved, tmp_path):
        folder = copied(saved, "weasel", tmp_path)
        rewrite(folder, lambda manifest: manifest.update(format=7, wiesel="9.9"))
        with pytest.raises(SavedModelError, match=r"format 7; .* reads format 1.*\(9\.9\)"):
            load_model(folder)

    def test_what_is_no_model_says_what_is_missing(self, tmp_path):
        with pytest.raises(SavedModelError, match="there is no such folder"):
            load_model(tmp_path / "nowhere")
        with pytest.raises(SavedModelError, match=r"it has no manifest\.json"):
            load_model(tmp_path)
        (tmp_path / "file").write_text("x")
        with pytest.raises(SavedModelError, match="is not a saved model"):
            load_model(tmp_path / "file")


def same_json(first: bytes, second: bytes) -> bool:
    """White space may change without changing what a manifest says."""
    try:
        return json.loads(first) == json.loads(second)
    except ValueError:
        return False


def is_refused(folder: Path) -> bool:
    """Whether loading is refused; any error but ours goes through and fails the test."""
    try:
        load_model(folder)
    except SavedModelError:
        return True
    return False


class TestHostility:
    """The checksums are right here: somebody made the folder to do harm."""

    @pytest.mark.parametrize("name", ["weasel", "two_stage", "dawid_skene"])
    def test_any_value_of_any_key_is_refused_or_harmless(self, saved, tmp_path, name):
        folder = copied(saved, name, tmp_path)
        original = (folder / "manifest.json").read_bytes()
        refused = checked = 0
        for key in [key for key in json.loads(original) if key != "sha256"]:
            for value in WRONG:
                (folder / "manifest.json").write_bytes(original)
                rewrite(folder, replace(key, value))
                checked += 1
                refused += is_refused(folder)
        assert checked > 50
        assert refused > checked // 2

    @pytest.mark.parametrize("name", ["weasel", "two_stage", "dawid_skene"])
    @pytest.mark.parametrize("section", ["parameters", "learned", "modules"])
    def test_any_value_inside_a_section_is_refused_or_harmless(
        self, saved, tmp_path, name, section
    ):
        folder = copied(saved, name, tmp_path)
        original = (folder / "manifest.json").read_bytes()
        keys = list(json.loads(original).get(section, {}))
        for key in keys:
            for value in WRONG:
                (folder / "manifest.json").write_bytes(original)
                rewrite(folder, lambda m, k=key, v=value: m[section].__setitem__(k, v))
                is_refused(folder)
        assert keys or (name, section) == ("dawid_skene", "modules")

    @pytest.mark.parametrize(
        "key", ["class", "parameters", "labels", "voters", "learned", "modules", "files", "format"]
    )
    def test_a_missing_key_is_refused(self, saved, tmp_path, key):
        folder = copied(saved, "weasel", tmp_path)
        rewrite(folder, remove(key))
        with pytest.raises(SavedModelError):
            load_model(folder)

    @pytest.mark.parametrize("value", ["Sequential", "os.system", "EndToEndModel", "Dict", 5, None])
    def test_another_class_is_refused(self, saved, tmp_path, value):
        folder = copied(saved, "weasel", tmp_path)
        rewrite(folder, replace("class", value))
        with pytest.raises(SavedModelError, match="unknown kind of model"):
            load_model(folder)

    def test_the_class_of_another_method_is_refused(self, saved, tmp_path):
        for name, other in (("weasel", "Supervised"), ("weasel", "DawidSkene")):
            folder = copied(saved, name, tmp_path / other)
            rewrite(folder, replace("class", other))
            with pytest.raises(SavedModelError, match=r"fit together|no option|arrays"):
                load_model(folder)

    @pytest.mark.parametrize(
        "name",
        ["../secret.txt", "/etc/passwd", "a/b", "..", ".hidden", "", "a" * 300, "x\0y", "C:\\x"],
    )
    def test_no_file_outside_the_folder_is_read(self, saved, tmp_path, name):
        folder = copied(saved, "weasel", tmp_path)
        (tmp_path / "secret.txt").write_text("secret")
        rewrite(folder, lambda manifest: manifest["files"].__setitem__(name, "0" * 64))
        with pytest.raises(SavedModelError, match="cannot be named"):
            load_model(folder)

    def test_links_are_not_followed(self, saved, tmp_path):
        folder = copied(saved, "weasel", tmp_path)
        for name in ("history.json", "manifest.json"):
            outside = tmp_path / f"outside-{name}"
            (folder / name).rename(outside)
            (folder / name).symlink_to(outside)
            with pytest.raises(SavedModelError, match=f"{name}"):
                load_model(folder)
            (folder / name).unlink()
            outside.rename(folder / name)

    def test_a_pickle_in_place_of_the_weights_is_not_run(self, saved, tmp_path):
        witness = tmp_path / "witness"
        payload = pickle.dumps(Evil(witness))
        for name, file in (
            ("weasel", "weights.safetensors"),
            ("weasel", "history.json"),
            ("two_stage", "label_model.safetensors"),
            ("dawid_skene", "arrays.safetensors"),
        ):
            folder = copied(saved, name, tmp_path / file)
            (folder / file).write_bytes(payload)
            rewrite(folder, lambda manifest: None)
            with pytest.raises(SavedModelError):
                load_model(folder)
        assert not witness.exists()

    def test_weights_of_another_shape_are_refused(self, saved, tmp_path):
        folder = copied(saved, "weasel", tmp_path)
        weights = load((folder / "weights.safetensors").read_bytes())
        for name in weights:
            changed = {**weights, name: torch.zeros(2, 2, 2)}
            (folder / "weights.safetensors").write_bytes(save(changed))
            rewrite(folder, lambda manifest: None)
            with pytest.raises(SavedModelError, match=r"stored \(2, 2, 2\)"):
                load_model(folder)
        missing = {name: value for name, value in weights.items() if "encoder" not in name}
        (folder / "weights.safetensors").write_bytes(save(missing))
        rewrite(folder, lambda manifest: None)
        with pytest.raises(SavedModelError, match="stored nothing"):
            load_model(folder)

    def test_huge_sizes_take_no_memory(self, saved, tmp_path):
        """200 GB of weights in a few bytes of manifest: refused, not allocated."""
        for change in (
            lambda m: m["modules"]["end_model"]["arguments"].update(n_features=10**10),
            lambda m: m["parameters"].update(encoder={"$tuple": [10**6, 10**6]}),
            lambda m: m["learned"].update(encoder_width=10**10),
        ):
            folder = copied(saved, "weasel", tmp_path)
            rewrite(folder, change)
            with pytest.raises(SavedModelError, match="do not fit the"):
                load_model(folder)
            shutil.rmtree(folder)

    @pytest.mark.parametrize("depth", [60, 900, 100_000])
    @pytest.mark.parametrize("file", ["manifest.json", "history.json"])
    def test_deep_nesting_is_refused(self, saved, tmp_path, depth, file):
        folder = copied(saved, "weasel", tmp_path)
        text = "[" * depth + "]" * depth
        if file == "history.json":
            (folder / file).write_text(text)
            rewrite(folder, lambda manifest: None)
        else:
            (folder / file).write_text(f'{{"format": 1, "files": {{}}, "x": {text}}}')
        with pytest.raises(SavedModelError):
            load_model(folder)

    @pytest.mark.parametrize(
        "values",
        [
            {"class_balance_": np.array([0.5, 0.3, 0.2])},
            {"class_balance_": np.array([np.nan, np.nan])},
            {"evil_": np.array([1.0])},
        ],
        ids=str,
    )
    def test_arrays_that_do_not_fit_a_label_model_are_refused(self, saved, tmp_path, values):
        from safetensors.numpy import load as load_arrays
        from safetensors.numpy import save as save_arrays

        folder = copied(saved, "dawid_skene", tmp_path)
        arrays = load_arrays((folder / "arrays.safetensors").read_bytes())
        (folder / "arrays.safetensors").write_bytes(save_arrays({**arrays, **values}))
        rewrite(folder, lambda manifest: None)
        with pytest.raises(SavedModelError, match=r"inconsistent|do not fit"):
            load_model(folder)

    @pytest.mark.parametrize(
        "change",
        [
            lambda m: m["learned"].update(class_balance=[0.5]),
            lambda m: m["learned"].update(class_balance={"$array": [2.0, -1.0], "dtype": "<f8"}),
            lambda m: m["learned"].update(class_balance={"$array": ["x"], "dtype": "|O"}),
            lambda m: m["learned"].update(tau_1="1"),
            lambda m: m["learned"].update(encoder_width=-5),
            lambda m: m["parameters"].update(activation="exec"),
            lambda m: m["parameters"].update(no_such_option=1),
            lambda m: m["modules"]["end_model"].update(name="Sequential"),
            lambda m: m["modules"]["end_model"]["arguments"].update(evil="import os"),
            lambda m: m.update(labels=["only one"]),
            lambda m: m.update(labels=["a", "a"]),
            lambda m: m.update(voters=["a", "b"]),
            lambda m: m.update(threshold="high"),
        ],
    )
    def test_values_that_do_not_fit_together_are_refused(self, saved, tmp_path, change):
        folder = copied(saved, "weasel", tmp_path)
        rewrite(folder, change)
        with pytest.raises(SavedModelError):
            load_model(folder)

    def test_a_label_model_of_other_voters_is_refused_in_two_stage(self, saved, tmp_path):
        folder = copied(saved, "two_stage", tmp_path)
        rewrite(folder, replace("voters", ["p", "q", "r", "s"]))
        with pytest.raises(SavedModelError, match="other classes or other voters"):
            load_model(folder)


def test_the_registry_is_what_the_tests_above_went_through():
    assert len(METHODS) >= 4
    assert {WeaSEL, TwoStage, Supervised, MajorityVote} <= {m.cls for m in METHODS.values()}
    assert all(dataclasses.is_dataclass(method.cls) for method in METHODS.values())


def test_a_saved_model_tells_no_place_of_its_author_and_writes_to_none(tmp_path: Path):
    task = tiny_task()
    place = tmp_path / "author" / "run.checkpoint"
    place.parent.mkdir()
    options, net = {"epochs": 1, "epoch_size": 48, "checkpoint": place}, Linear(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WieselWarning)
        for number, model in enumerate(
            (Committee(net, **options), weasel(net, checkpoint=place), weasel(net, members=2))
        ):
            folder = tmp_path / f"model{number}"
            model.fit(task.X, task.votes).save(folder)
            assert str(tmp_path) not in (folder / "manifest.json").read_text()
            assert str(tmp_path) not in (folder / "CARD.md").read_text()
            # A forged manifest: the first checkpoint of a model, and of every member.
            forge_checkpoints(folder, tmp_path / "victim")
            loaded: Any = load_model(folder)
            everyone = [loaded, *loaded.members_]
            assert [each.checkpoint for each in everyone] == [None] * len(everyone)
            loaded.fit(task.X, task.votes)
    assert list(tmp_path.glob("victim*")) == []


def test_the_members_of_an_ensemble_come_back_as_the_single_models_that_they_are(tmp_path: Path):
    X, votes, _ = tiny_task()
    model = TwoStage(MajorityVote(), Linear(3, 2), **QUICK, members=2, seed=5).fit(X, votes)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert [(each.members, each.seed) for each in loaded.members_] == [(1, 5), (1, 6)]


def forge_checkpoints(folder: Path, place: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        for part in (manifest, *manifest.get("members", [])):
            part["parameters"]["checkpoint"] = str(place)

    rewrite(folder, change)
