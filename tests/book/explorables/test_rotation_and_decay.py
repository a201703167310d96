"""A key that transitions carry along a sentence: way, score and properties."""

import numpy as np

from posedu.book.explorables import rotation_and_decay as example
from posedu.numpy.path import path_scores
from support.explorables import FRAGMENTS, close, numbers, read, set_slider

TRANSITIONS = example._transitions()


def check_way(page):
    shown = read(page)
    key, query = map(int, shown["inputs"])
    order = list(range(len(example.WORDS)))
    if page.locator("button").get_attribute("aria-pressed") == "true":
        order[1], order[2] = 2, 1
    T = TRANSITIONS[shown["chosen"][0]][order]
    way = np.reshape(numbers(shown["paths"]["way"]), (-1, 2))
    assert len(way) == query - key + 1
    moved = example.KEY_VECTOR
    for t, place in zip(range(key, query + 1), way, strict=True):
        moved = moved if t == key else T[t] @ moved
        close(place, moved, 3, 1e-3)
    k = np.tile(example.KEY_VECTOR, (1, len(T), 1))
    q = np.tile(example.QUERY_VECTOR, (1, len(T), 1))
    score = path_scores(q, k, lambda t, keys: keys @ T[t].T)[0, query, key]
    length, said = numbers(shown["summary"].replace("−", "-"))[:2]
    close([length, said], [np.hypot(*moved), score], 2, 1e-3)
    words = page.locator(".word").all_text_contents()
    assert words == [example.WORDS[n] for n in order]
    lit = page.locator(".mark").evaluate_all(
        "all => all.map(m => m.getAttribute('fill-opacity') === '1')"
    )
    assert lit == example._properties(TRANSITIONS[shown["chosen"][0]])
    return score


def test_way_and_score_are_the_reference_s_for_every_transition(open_page):
    page = open_page(FRAGMENTS["rotation_and_decay"])
    for name in example.NAMES:
        page.locator("select").select_option(name)
        for key, query in ((0, 6), (2, 5), (3, 3)):
            set_slider(page, "key", 0)
            set_slider(page, "query", query)
            set_slider(page, "key", key)
            check_way(page)


def test_exchanged_words_change_the_score_unless_transitions_commute(open_page):
    page = open_page(FRAGMENTS["rotation_and_decay"])
    for name, transitions in TRANSITIONS.items():
        page.locator("select").select_option(name)
        before = check_way(page)
        page.locator("button").press("Space")
        after = check_way(page)
        page.locator("button").press("Space")
        commute = example._properties(transitions)[2]
        assert (abs(after - before) < 1e-12) == commute


def test_a_key_after_the_query_takes_the_query_along(open_page):
    page = open_page(FRAGMENTS["rotation_and_decay"])
    set_slider(page, "query", 2)
    set_slider(page, "key", 4)
    assert read(page)["inputs"] == [4, 4]
    set_slider(page, "query", 1)
    assert read(page)["inputs"] == [1, 1]
    check_way(page)


def test_equal_words_have_equal_transitions():
    places = {}
    for n, word in enumerate(example.WORDS):
        places.setdefault(word, []).append(n)
    for T in TRANSITIONS.values():
        for same in places.values():
            assert (T[same] == T[same[0]]).all()


def test_properties_are_those_of_the_matrices():
    holds = {
        name: dict(zip(example.PROPERTIES, example._properties(T), strict=True))
        for name, T in TRANSITIONS.items()
    }
    assert [n for n, row in holds.items() if row["orthogonal"]] == [
        "selective", "nope", "rope", "reflections",
    ]  # fmt: skip
    assert [n for n, row in holds.items() if not row["has an inverse"]] == [
        "projections"
    ]
    assert [n for n, row in holds.items() if not row["all commute"]] == [
        "reflections", "projections",
    ]  # fmt: skip
    assert [n for n, row in holds.items() if row["relative"]] == [
        "nope", "rope", "retention",
    ]  # fmt: skip
