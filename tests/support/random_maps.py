"""Random maps of special cases, larger than the catalog's."""

import random


def made_up(count, seed=0):
    """Return names and edges of random encodings, for tests of the map.

    Each encoding becomes some of the four oldest hubs and of the last eight encodings.
    """
    draw = random.Random(seed)
    names, hubs, edges = ["e0"], ["e0"], set()
    for n in range(1, count):
        for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3))):
            edges.add((f"e{n}", draw.choice(draw.choice((hubs[:4], names[-8:])))))
        names.append(f"e{n}")
        hubs += [f"e{n}"] * (n % 9 == 3)
    return names, sorted(edges)
