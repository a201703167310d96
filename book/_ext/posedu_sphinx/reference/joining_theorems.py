"""Theorems that join two encodings: their special cases, followed through the catalog.

A special case is another encoding that an encoding becomes under a condition. A chain
is a sequence of special cases, each of the encoding to which the case before it leads.
"""

import html
from functools import cache
from itertools import combinations

from posedu.catalog import ATTENTION, CATALOG

VERBS = {  # what a special case says, by its kind
    "is": "equals {}",
    "limit": "has {} as its limit",
    "part": "agrees in one part with {}",
}
NEITHER = "By the theorems of this book neither becomes the other."
NONE = (
    "No theorem of this book joins these two: neither becomes the other in a special "
    "case, they have no special case in common, and no third encoding becomes both."
)


def name_in_sentence(name):
    """Return how a sentence names an encoding, or attention without one."""
    return "attention without an encoding" if name == ATTENTION else CATALOG[name].title


@cache
def chains(name):
    """Return the shortest chain of special cases from an encoding to each other one.

    The result maps the name of each encoding that ``name`` becomes, step by step, to a
    tuple of pairs (name of an encoding, one of its special cases). The chain from
    ``name`` to itself is empty.
    """
    found = {name: ()}
    waiting = [name]
    for current in waiting:
        for case in CATALOG[current].special_cases if current != ATTENTION else ():
            if case.of not in found:
                found[case.of] = (*found[current], (current, case))
                waiting.append(case.of)
    return found


def join(one, other):
    """Return how theorems join two encodings: a sentence, and special cases as proof.

    The special cases are pairs (name of an encoding, one of its special cases). If one
    encoding becomes the other, they are the chain between the two. Else they are the
    chains to the nearest special case that both have, or else the chains from the
    nearest encoding that has both as special cases; nearest means the fewest steps.
    They are empty if no theorem joins the two.
    """
    from_one, from_other = chains(one), chains(other)
    names = (name_in_sentence(one), name_in_sentence(other))
    for (start, end), chain in (
        (names, from_one.get(other)),
        (names[::-1], from_other.get(one)),
    ):
        if chain:
            return _lead_of_chain(start, end, chain), chain
    below = {
        name_in_sentence(name): from_one[name] + from_other[name]
        for name in from_one
        if name in from_other
    }
    above = {
        name_in_sentence(name): found[one] + found[other]
        for name in CATALOG
        if {one, other} <= (found := chains(name)).keys()
    }
    for candidates, lead in (
        (below, "The nearest special case that both have is {}:"),
        (above, "Both are special cases of a third encoding, {}:"),
    ):
        if candidates:
            nearest = min(candidates, key=lambda name: len(candidates[name]))
            return f"{NEITHER} {lead.format(nearest)}", candidates[nearest]
    return NONE, ()


def _lead_of_chain(start, end, chain):
    if len(chain) == 1:
        return "A theorem joins the two directly:"
    return f"{len(chain)} theorems lead from {start} to {end}, step by step:"


def joins(sentence_of):
    """Return the joins of all pairs of encodings, as data for the page's script.

    ``sentence_of`` returns the HTML of a pair (name of an encoding, one of its special
    cases). In the result, ``leads`` are texts and ``cases`` sentences; ``pairs`` maps
    two names, separated by a space and in the catalog's order, to the number of the
    lead and the numbers of the cases. A pair that no theorem joins is not among them
    and has the first lead.
    """
    leads, cases, pairs = {NONE: 0}, {}, {}
    for one, other in combinations(CATALOG, 2):
        lead, chain = join(one, other)
        if chain:
            numbers = [cases.setdefault(step, len(cases)) for step in chain]
            lead_number = leads.setdefault(lead, len(leads))
            pairs[f"{one} {other}"] = [lead_number, *numbers]
    return {
        "leads": list(leads),
        "cases": [sentence_of(*step) for step in cases],
        "pairs": pairs,
    }


def sentence(name, case, address):
    """Return the HTML sentence of a special case, with a link to its proof.

    ``name`` is the name of the encoding that has the special case ``case``, ``address``
    that of the proof.
    """
    title = html.escape(name_in_sentence(name))
    what = VERBS[case.kind].format(html.escape(name_in_sentence(case.of)))
    return (
        f"{title} {what} where {html.escape(case.when)} "
        f'(<a href="{address}" aria-label="proof that {title} {what}">proof</a>).'
    )
