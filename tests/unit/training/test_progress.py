import sys
from types import ModuleType, SimpleNamespace

from wiesel.training.progress import in_notebook, line_html


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
