from experiments.studies.default import SETS
from experiments.tasks.halves import (
    BASE_HALVES,
    CHOOSE,
    FAMILIES,
    REAL_HALVES,
    drawn,
    is_balanced,
)


def test_the_committed_halves_are_those_that_the_seed_draws():
    assert drawn() == CHOOSE


def test_the_sixteen_real_sets_are_split_into_eight_and_eight():
    assert sorted(REAL_HALVES) == sorted(SETS)
    assert sorted(REAL_HALVES.values()) == ["choose"] * 8 + ["confirm"] * 8


def test_no_base_and_no_real_set_stands_in_two_families():
    bases = [base for family in FAMILIES.values() for base in family.bases]
    sets = [name for family in FAMILIES.values() for name in family.real_sets]
    assert len(bases) == len(set(bases)) == len(BASE_HALVES)
    assert len(sets) == len(set(sets)) == len(REAL_HALVES)


def test_sets_of_the_same_texts_are_in_one_half():
    assert BASE_HALVES["imdb_136"] == BASE_HALVES["movie_reviews"] == REAL_HALVES["imdb_12"]
    assert BASE_HALVES["sst2"] == BASE_HALVES["sentiment_crowd"]
    assert all(BASE_HALVES[n] == half for n, half in REAL_HALVES.items() if n in BASE_HALVES)


def test_every_kind_of_base_is_in_both_halves():
    kinds = {kind: set() for kind in ("binary text", "multi-class text", "table", "image")}
    for family in FAMILIES.values():
        for base in family.bases:
            kinds[family.kind].add(BASE_HALVES[base])
    assert all(halves == {"choose", "confirm"} for halves in kinds.values())


def test_a_half_with_all_images_is_not_balanced():
    assert is_balanced(set(CHOOSE))
    assert not is_balanced({*CHOOSE, "labelme"})
