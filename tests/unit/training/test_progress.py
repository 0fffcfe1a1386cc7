import sys
from types import ModuleType, SimpleNamespace

from wiesel.training.history import in_notebook, line_html, progress_bar


def test_a_terminal_of_ipython_is_no_notebook(monkeypatch):
    terminal = ModuleType("IPython")
    terminal.get_ipython = lambda: SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", terminal)
    assert not in_notebook()


def test_a_shell_with_a_kernel_is_a_notebook(monkeypatch):
    kernel = ModuleType("IPython")
    kernel.get_ipython = lambda: SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    assert in_notebook()


def test_a_bar_is_as_long_as_the_share_that_is_done():
    assert "width:25%" in line_html("epoch 1 of 4", 0.25)
    assert "width:100%" in line_html("epoch 5 of 4", 1.25)


def test_the_line_of_a_notebook_shows_the_share_that_is_done(monkeypatch):
    shown = []
    handle = SimpleNamespace(
        display=lambda bundle, raw: shown.append(bundle),
        update=lambda bundle, raw: shown.append(bundle),
    )
    monkeypatch.setattr("IPython.display.DisplayHandle", lambda: handle)
    monkeypatch.setattr("wiesel.training.history.in_notebook", lambda: True)
    with progress_bar(8, 2, None) as show:
        show({"epoch": 6, "loss": 0.25, "agreement": 1})
    assert [bundle["text/plain"].partition(" in ")[0] for bundle in shown] == [
        "epoch 2 of 8",
        "epoch 6 of 8  loss 0.250",
        "Trained 6 epochs",
    ]
    assert ["width:25%" in shown[0]["text/html"], "width:75%" in shown[1]["text/html"]] == [1, 1]
    with progress_bar(8, 2, False) as show:
        show({"epoch": 3})
    assert len(shown) == 3
