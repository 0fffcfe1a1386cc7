"""Functions and files stay small: style.md section 1, where the targets come from."""

import statistics

from source_tree import body_length, n_parameters, sources

# Why each may be longer or take more: nothing else in the package may.
LONG_BODIES: dict[str, str] = {}
MANY_PARAMETERS = {
    "from_long": "every keyword names a column or fixes an order",
    "apply": "every parameter of the verb is an option of the command line",
    "aggregate": "every parameter of the verb is an option of the command line",
    "inspect": "every parameter of the verb is an option of the command line",
    "write_predictions": "three of them are names that the annotation tool has",
    "fit_tagger": "every parameter of the verb is an option of the command line",
    "apply_lfs": "five keywords that most calls leave out, each with a meaning of its own",
    "apply_lfs_to_folder": "those of apply_lfs, with a folder",
    "apply_multilabel_lfs": "those of apply_lfs",
    "prompt_from_file": "what a prompt in a file is filled with, each by its own name",
    "prompt_labels": "those of prompt_from_file",
    "rules_from_model": "those of suggest_lfs, and what its prompt is filled with",
}


def test_half_of_all_functions_have_ten_lines_or_fewer():
    lengths = [body_length(function) for source in sources() for function in source.functions()]
    assert len(lengths) > 200
    assert statistics.median(lengths) <= 10
    assert statistics.quantiles(lengths, n=10)[-1] <= 30


def test_no_function_is_longer_than_sixty_lines():
    checked, long = 0, []
    for source in sources():
        for function in source.functions():
            checked += 1
            if body_length(function) > 60 and function.name not in LONG_BODIES:
                long.append(f"{source.name}:{function.lineno} {function.name}")
    assert checked > 200
    assert not long, "\n".join(long)


def test_no_file_is_longer_than_four_hundred_lines():
    assert len(sources()) > 50
    long = [f"{source.name}: {source.n_lines}" for source in sources() if source.n_lines > 400]
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


def test_the_length_of_a_body_leaves_out_the_docstring():
    import ast

    code = 'def f(a, *, b):\n    """One.\n\n    Two.\n    """\n    x = a\n    return x + b\n'
    function = ast.parse(code).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert (body_length(function), n_parameters(function)) == (2, 2)
