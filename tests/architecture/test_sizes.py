"""Files and lists of parameters stay readable; `test_walks.py` counts what one has to read."""

from package_size import code_lines
from source_tree import n_parameters, sources

# Why each may take more: nothing else in the package may.
MANY_PARAMETERS = {
    "from_long": "every keyword names a column or fixes an order",
    "apply": "every parameter of the verb is an option of the command line",
    "aggregate": "every parameter of the verb is an option of the command line",
    "ask_next": "every parameter of the verb is an option of the command line",
    "inspect": "every parameter of the verb is an option of the command line",
    "promote": "every parameter of the verb is an option of the command line",
    "write_predictions": "three of them are names that the annotation tool has",
    "predict": "every parameter of the verb is an option of the command line",
    "make_panel": "each keyword is a property of the panels that are generated",
    "fit_votes": "every parameter of the verb is an option of the command line",
    "fit_tagger": "every parameter of the verb is an option of the command line",
    "apply_lfs": "five keywords that most calls leave out, each with a meaning of its own",
    "apply_lfs_to_folder": "those of apply_lfs, with a folder",
    "apply_multilabel_lfs": "those of apply_lfs",
    "prompt_from_file": "what a prompt in a file is filled with, each by its own name",
    "prompt_labels": "those of prompt_from_file",
    "rules_from_model": "those of suggest_lfs, and what its prompt is filled with",
}


def test_no_file_is_longer_than_six_hundred_lines():
    assert len(sources()) > 50
    long = [f"{source.name}: {source.n_lines}" for source in sources() if source.n_lines > 600]
    assert not long, "\n".join(long)


def test_no_function_takes_more_than_seven_parameters():
    checked, wide, used = 0, [], set()
    for source in sources():
        for function in source.functions():
            checked += 1
            if n_parameters(function) > 7:
                used.add(function.name)
                if function.name not in MANY_PARAMETERS:
                    wide.append(f"{source.name}:{function.lineno} {function.name}")
    assert checked > 200
    assert not wide, "\n".join(wide)
    assert used >= MANY_PARAMETERS.keys(), "an exception that is no longer needed"


def test_a_folder_holds_three_files_or_more():
    """A package of one file and its __init__ is a module in disguise."""
    folders = {source.path.parent for source in sources()}
    assert len(folders) > 5
    assert not [folder.name for folder in folders if len(list(folder.glob("*.py"))) < 3]


def test_documentation_is_no_code():
    code = '"""A."""\n\n# why\nclass B:\n    """C.\n\n    D."""\n\n    e: int = 1\n    """F."""\n'
    assert code_lines(code) == 2
    assert code_lines("x = (\n    1,  # one\n)\n") == 3


def test_parameters_are_counted_without_self():
    import ast

    function = ast.parse("def f(self, a, *, b):\n    return a + b\n").body[0]
    assert isinstance(function, ast.FunctionDef)
    assert n_parameters(function) == 2
