"""Exercises on algebraic, Laplacian and random-walk encodings."""

import numpy as np
import torch

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Sheet,
    draw,
)

# trees-and-graphs-1: the way between two nodes


def steps_between(x, y):
    """Return the steps up and the steps down on the way from x to y: two integers.

    ``x`` and ``y`` are the paths of two nodes of a tree: tuples of branches, from the
    root down.
    """
    common = 0
    while common < min(len(x), len(y)) and x[common] == y[common]:
        common += 1
    return len(x) - common, len(y) - common


def _equal_places(x, y):
    """Return the number of steps at which two paths take equal branches."""
    return sum(a == b for a, b in zip(x, y, strict=False))


STEPS = Exercise(
    name="trees-and-graphs-1",
    title="The way between two nodes",
    kind="by hand",
    minutes=5,
    lines=4,
    statement=r"""
Two nodes of a tree have the paths `x` and `y`, tuples of branches from the root down; the root has the path `()`.
On the way from `x` to `y`, how many steps go up, and how many go down?
Return the two integers.
Is it the beginning or the end of the two paths that does not matter?
""",
    hint=r"""
The way turns at the last node that both paths pass.
""",
    cases=(
        ((), (0,)),
        ((0, 1), (0,)),
        ((0, 0), (1, 0)),
        ((1, 0, 1), (1, 1, 1)),
        ((2, 0), (2, 0)),
        ((0, 1, 0, 0), (0, 1, 1)),
    ),
    solution=steps_between,
    misconceptions=(
        Misconception(
            "Suffix for prefix",
            "Your answer leaves out the common end of the paths. The way turns at the "
            "last node that both *pass*, and both begin at the root.",
            lambda x, y: steps_between(x[::-1], y[::-1]),
        ),
        Misconception(
            "Way over the root",
            "Your answer goes up to the root. The way turns earlier where both paths "
            "begin alike.",
            lambda x, y: (len(x), len(y)),
        ),
        Misconception(
            "Up and down exchanged",
            "The way begins at x: its steps go up.",
            lambda x, y: steps_between(y, x),
        ),
        Misconception(
            "Every equal branch counted as common",
            "Once the paths have parted, equal branches lead to different nodes.",
            lambda x, y: (len(x) - _equal_places(x, y), len(y) - _equal_places(x, y)),
        ),
        Misconception(
            "Nodes counted in place of steps",
            "Your answer counts the node at which the way turns as a step.",
            lambda x, y: tuple(n + 1 for n in steps_between(x, y)),
        ),
        Misconception(
            "Difference of the depths",
            "Nodes of equal depth are not the same node.",
            lambda x, y: (max(len(x) - len(y), 0), max(len(y) - len(x), 0)),
        ),
        Misconception(
            "Length of the common part",
            "Your answer has the steps that both paths share. Asked for are the others.",
            lambda x, y: (len(x) - steps_between(x, y)[0],) * 2,
        ),
    ),
    explanation=r"""
Both paths begin at the root and are equal as long as they pass the same nodes; from there on the way goes up the rest of `x` and down the rest of `y`.
The beginning does not matter: {prf:ref}`the common prefix cancels <thm-trees-relative>`.
A common end stays: the paths 1 0 1 and 1 1 1 are two steps up and two steps down from each other.
""",
)


# trees-and-graphs-2: the product along a path


def path_product(path, rotations):
    """Return the product of the branches' rotations along a path, ``[b, b]``.

    ``path`` is a tuple of branches from the root down, ``rotations`` the matrix of each
    branch, ``[branches, b, b]``.
    """
    product = np.eye(rotations.shape[-1])
    for branch in path:
        product = product @ rotations[branch]
    return product


def _rotations(branches, b):
    """Draw a rotation for each branch: ``[branches, b, b]``."""
    q = np.linalg.qr(draw(branches, b, b))[0]
    q[:, :, 0] *= np.linalg.det(q)[:, None]
    return q


def _product(order=lambda path: path, factor=lambda r: r):
    """Make a wrong answer to ``path_product``: other letters, or other factors.

    ``order`` replaces the path, and ``factor`` the matrix of a branch.
    """

    def answer(path, rotations):
        product = np.eye(rotations.shape[-1])
        for branch in order(path):
            product = product @ factor(rotations[branch])
        return product

    return answer


PRODUCT = Exercise(
    name="trees-and-graphs-2",
    title="Multiply along a path",
    kind="NumPy",
    minutes=6,
    lines=4,
    statement=r"""
`path` is a tuple of branches from the root down, and `rotations[n]` is the orthogonal matrix of branch $n$.
Return the matrix $\rho$ of the path, with the factor of the first step on the left; the root has the identity.
Why does this order make scores depend on the way between two nodes alone?
""",
    hint=r"""
Start with the identity, and multiply by one matrix for each step, from the right.
""",
    cases=(
        ((1,), _rotations(2, 2)),
        ((), _rotations(2, 3)),
        ((0, 1), _rotations(2, 3)),
        ((0, 0, 2, 1), _rotations(3, 3)),
    ),
    solution=path_product,
    misconceptions=(
        Misconception(
            "Product from the node up",
            "Your answer has the last step on the left. Then the common beginning of "
            "two paths stands around their differences and does not cancel.",
            _product(lambda path: path[::-1]),
        ),
        Misconception(
            "Matrices added",
            "A path is a product of its steps: rotations do not add.",
            lambda path, r: sum((r[n] for n in path), np.zeros(r.shape[1:])),
        ),
        Misconception(
            "Entries multiplied",
            "`*` multiplies entry by entry; the product of matrices is `@`.",
            lambda path, r: np.prod([np.ones(r.shape[1:]), *(r[n] for n in path)], 0),
        ),
        Misconception(
            "Inverse of each step",
            "Transposed matrices undo the steps. They belong to the way up.",
            _product(factor=lambda r: r.T),
        ),
        Misconception(
            "Last step left out",
            "Every step of the path has a factor.",
            _product(lambda path: path[:-1]),
        ),
        Misconception(
            "First step left out",
            "The step from the root has a factor, too.",
            _product(lambda path: path[1:]),
        ),
        Misconception(
            "Branches sorted",
            "Sorted branches are another path: these matrices do not commute.",
            _product(sorted),
        ),
        Misconception(
            "Each branch taken once",
            "A branch that is taken twice has two factors.",
            _product(lambda path: tuple(dict.fromkeys(path))),
        ),
        Misconception(
            "Last step alone",
            "A node is not the same as its branch: the path has all steps.",
            _product(lambda path: path[-1:]),
        ),
    ),
    properties=(
        Property(
            "The matrix of a path times that of a further path is the matrix of both "
            "paths, one after the other",
            lambda answer, path, rotations: np.allclose(
                answer(path, rotations) @ answer((0, 1), rotations),
                answer((*path, 0, 1), rotations),
            ),
        ),
    ),
    explanation=r"""
With the first step on the left, $\rho(w u)^\top \rho(w v) = \rho(u)^\top \rho(w)^\top \rho(w)\, \rho(v)$, and in the middle an orthogonal matrix meets its inverse: {prf:ref}`the common prefix cancels <thm-trees-relative>`.
In the other order the differences of the paths are in the middle, and the prefix stays around them.
""",
)


# trees-and-graphs-3: find the input


def colleagues_steps(x, y):
    """Steps up and steps down on the way from x to y.

    Steps that two paths have in common do not count.
    """
    equal = sum(a == b for a, b in zip(x, y, strict=False))
    return len(x) - equal, len(y) - equal


def nodes_with_wrong_steps():
    """Return the paths of two nodes for which `colleagues_steps` is wrong.

    The answer is (x, y), two tuples of branches, of the smallest length together.
    """
    return (0, 0), (1, 0)


def _refused_paths(x, y):
    for path in (x, y):
        if not isinstance(path, tuple) or any(
            type(branch) is not int or branch < 0 for branch in path
        ):
            return "x and y are tuples of branches, integers of at least 0"
    return ""


HUNT = Exercise(
    name="trees-and-graphs-3",
    title="Find the input: steps that are counted",
    kind="find the input",
    minutes=5,
    lines=1,
    statement=r"""
`colleagues_steps` should do what exercise trees-and-graphs-1 asks for.
Her tests are the root and its child, a node and its child, and two children of one node; all pass.
Return two paths, as short as possible together, for which it is wrong.
What does it take for common, and what should it?
""",
    hint=r"""
How must two paths go on after they have parted, so that she counts too much as common?
""",
    cases=((),),
    solution=nodes_with_wrong_steps,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_steps,
        right=steps_between,
        tested=(((), (0,)), ((0,), (0, 1)), ((0, 1), (0, 0))),
        refusal=_refused_paths,
        size=lambda x, y: len(x) + len(y),
        size_of="length of both paths together",
    ),
    explanation=r"""
She counts every step at which the paths take equal branches; common are only those before the paths part, the {prf:ref}`prefix <thm-trees-relative>`.
Two paths that part at once and then take the same branch, such as 0 0 and 1 0, are two steps up and two steps down from each other, and she says one and one.
With shorter paths nothing can follow the step at which they part on both sides.
""",
)


# trees-and-graphs-4: the Laplacian


def graph_laplacian(adjacency):
    """Return the normalized Laplacian of a graph, ``[nodes, nodes]``.

    ``adjacency`` is the symmetric matrix of the edges, 1 for an edge. Every node has an
    edge.
    """
    degrees = adjacency.sum(axis=1)
    return (np.diag(degrees) - adjacency) / np.sqrt(np.outer(degrees, degrees))


def _path(n):
    return np.eye(n, k=1) + np.eye(n, k=-1)


def _cycle(n):
    return np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)


def _star(n):
    a = np.zeros((n, n))
    a[0, 1:] = a[1:, 0] = 1
    return a


def _difference(a):
    return np.diag(a.sum(axis=1)) - a


LAPLACIAN = Exercise(
    name="trees-and-graphs-4",
    title="The normalized Laplacian",
    kind="NumPy",
    minutes=5,
    lines=2,
    statement=r"""
Return the Laplacian $D^{-1/2} (D - A)\, D^{-1/2}$ of a graph with the adjacency matrix $A$, where $D$ is the diagonal matrix of the degrees.
Every node has an edge.
What is its diagonal?
""",
    hint=r"""
Entry $(i, j)$ of $D - A$ is divided by $\sqrt{d_i d_j}$.
""",
    cases=((_path(2),), (_path(3),), (_star(4),), (_cycle(5),)),
    solution=graph_laplacian,
    misconceptions=(
        Misconception(
            "Not normalized",
            "Your answer is D − A. Divide entry (i, j) by the root of both degrees.",
            _difference,
        ),
        Misconception(
            "Random walk's Laplacian",
            "Your answer divides each row by its degree: the matrix is not symmetric.",
            lambda a: _difference(a) / a.sum(axis=1)[:, None],
        ),
        Misconception(
            "Divided by both degrees",
            "Both sides have a root: D^(−½), not D⁻¹.",
            lambda a: _difference(a) / np.outer(a.sum(axis=1), a.sum(axis=1)),
        ),
        Misconception(
            "Signless Laplacian",
            "Your answer has D + A. The Laplacian has the difference.",
            lambda a: np.abs(graph_laplacian(a)),
        ),
        Misconception(
            "Sign reversed",
            "The Laplacian has D − A, with positive numbers on the diagonal.",
            lambda a: -graph_laplacian(a),
        ),
        Misconception(
            "Normalized adjacency matrix",
            "Your answer is D^(−½) A D^(−½), which the identity minus the Laplacian is.",
            lambda a: np.eye(len(a)) - graph_laplacian(a),
        ),
        Misconception(
            "Multiplied by the roots",
            "Roots of degrees divide: the exponent is −½.",
            lambda a: _difference(a) * np.sqrt(np.outer(a.sum(axis=1), a.sum(axis=1))),
        ),
        Misconception(
            "Divided by the largest degree",
            "Each node has a degree of its own.",
            lambda a: _difference(a) / a.sum(axis=1).max(),
        ),
    ),
    properties=(
        Property(
            "The matrix is symmetric",
            lambda answer, a: np.allclose(answer(a), answer(a).T),
        ),
    ),
    explanation=r"""
The diagonal of $D - A$ is the degree, and divided by $\sqrt{d_i d_i}$ it is 1 for every node: the normalized Laplacian is $I - D^{-1/2} A D^{-1/2}$, {prf:ref}`as defined <def-trees-laplacian-box>`.
On a cycle all degrees are 2, and it is one half of $D - A$, with the {prf:ref}`same eigenvectors <thm-trees-cycle>`.
""",
)


# trees-and-graphs-5: projectors


def eigenspace_projectors(eigenvalues, vectors, tolerance):
    """Return the projector of each eigenspace, ``[spaces, nodes, nodes]``.

    ``eigenvalues`` are sorted, the smallest first; ``vectors`` has orthonormal
    eigenvectors as columns. Eigenvalues that differ by at most ``tolerance`` from the
    one before belong to the same eigenspace.
    """
    starts = np.flatnonzero(np.diff(eigenvalues) > tolerance) + 1
    return np.stack([v @ v.T for v in np.split(vectors, starts, axis=1)])


def _spectrum(a):
    """Eigenvalues and eigenvectors of D − A, and a tolerance."""
    return *np.linalg.eigh(_difference(a)), 1e-6


def _each_space(make):
    """Make a wrong answer: ``make`` replaces V Vᵀ of an eigenspace's vectors V."""

    def answer(eigenvalues, vectors, tolerance):
        starts = np.flatnonzero(np.diff(eigenvalues) > tolerance) + 1
        return np.stack([make(v) for v in np.split(vectors, starts, axis=1)])

    return answer


PROJECTORS = Exercise(
    name="trees-and-graphs-5",
    title="What does not depend on the basis",
    kind="NumPy",
    minutes=10,
    lines=2,
    statement=r"""
`vectors` has orthonormal eigenvectors of a Laplacian as columns, `eigenvalues` are sorted.
Eigenvalues that differ by at most `tolerance` from the one before them are equal.
Return the projector of each eigenspace, in the order of the eigenvalues, as an array `[spaces, nodes, nodes]`.
What is the sum of all projectors?
""",
    hint=r"""
`np.split` cuts the columns where an eigenvalue is larger than the one before it.
""",
    cases=(
        _spectrum(_path(2)),
        _spectrum(_path(3)),
        _spectrum(_cycle(4)),
        _spectrum(_star(5)),
    ),
    solution=eigenspace_projectors,
    misconceptions=(
        Misconception(
            "Inner products in place of projectors",
            "VᵀV is the identity of the eigenspace. The projector is V Vᵀ.",
            _each_space(lambda v: np.broadcast_to((v.T @ v)[:1, :1], (len(v),) * 2)),
        ),
        Misconception(
            "Eigenvalue times projector",
            "Your answer has the eigenvalue as a factor: those are the summands of "
            "the Laplacian.",
            lambda w, v, tolerance: (
                eigenspace_projectors(w, v, tolerance)
                * np.array(
                    [
                        part[0]
                        for part in np.split(
                            w, np.flatnonzero(np.diff(w) > tolerance) + 1
                        )
                    ]
                )[:, None, None]
            ),
        ),
        Misconception(
            "First eigenvector of each space alone",
            "A space of two dimensions has two eigenvectors, and both belong to its "
            "projector.",
            _each_space(lambda v: np.outer(v[:, 0], v[:, 0])),
        ),
        Misconception(
            "Rows for columns",
            "Eigenvectors are the columns of the matrix.",
            lambda w, v, tolerance: eigenspace_projectors(w, v.T, tolerance),
        ),
        Misconception(
            "Absolute values of the eigenvectors",
            "Absolute values remove the sign, and also which entries have equal signs.",
            _each_space(lambda v: np.abs(v) @ np.abs(v).T),
        ),
        Misconception(
            "Largest eigenvalue first",
            "The projectors are in the order of the eigenvalues, the smallest first.",
            lambda w, v, tolerance: eigenspace_projectors(w, v, tolerance)[::-1],
        ),
    ),
    tolerance=1e-8,
    explanation=r"""
The columns of one eigenspace form $V_\lambda$, and its projector is $V_\lambda V_\lambda^\top$; each other choice of basis is $V_\lambda Q$ and gives the same, {prf:ref}`and nothing else does <thm-trees-projector>`.
All eigenvectors together are an orthogonal matrix $V$, so the sum of all projectors is $V V^\top = I$.
""",
)


# trees-and-graphs-6: SignNet's sum


def sign_invariant(vectors, phi):
    """Return φ(v) + φ(−v) for each column v of ``vectors``: ``[nodes, k]``.

    ``phi`` takes a vector, ``[nodes]``, and returns one.
    """
    return torch.stack([phi(v) + phi(-v) for v in vectors.unbind(1)], 1)


def _mixes(v):
    """A φ that compares each entry with the first one."""
    return (v * v[0] + v).relu()


def _cubes(v):
    return v**3 + v.square() + v.sum()


SIGNS = Exercise(
    name="trees-and-graphs-6",
    title="A function of an eigenvector without its sign",
    kind="PyTorch",
    minutes=6,
    lines=1,
    statement=r"""
SignNet applies a network $\phi$ to an eigenvector and to its negative, and adds the results.
Apply it to each column $v$ of `vectors`, `[nodes, k]`, and return $\phi(v) + \phi(-v)$ as the columns of the result.
`phi` takes and returns a vector of all nodes.
Why has it to see the whole vector, not one entry at a time?
""",
    hint=r"""
`unbind(1)` gives the columns, and `torch.stack(…, 1)` puts columns together.
""",
    cases=(
        (torch.tensor(draw(2, 1)), _cubes),
        (torch.tensor(draw(3, 2)), _mixes),
        (torch.tensor(draw(4, 3)), _cubes),
        (torch.tensor(draw(3, 3)), _mixes),
    ),
    solution=sign_invariant,
    misconceptions=(
        Misconception(
            "Network of the vector alone",
            "φ(v) changes when the solver returns −v.",
            lambda v, phi: torch.stack([phi(u) for u in v.unbind(1)], 1),
        ),
        Misconception(
            "Network of absolute values",
            "Absolute values do not depend on the sign, but forget which entries have "
            "equal signs.",
            lambda v, phi: torch.stack([2 * phi(u.abs()) for u in v.unbind(1)], 1),
        ),
        Misconception(
            "Rows for columns",
            "An eigenvector is a column: one number for each node.",
            lambda v, phi: sign_invariant(v.mT, phi).mT,
        ),
        Misconception(
            "Difference",
            "φ(v) − φ(−v) changes its sign with v.",
            lambda v, phi: torch.stack([phi(u) - phi(-u) for u in v.unbind(1)], 1),
        ),
        Misconception(
            "Mean of the two",
            "The sum is asked for, without a half.",
            lambda v, phi: sign_invariant(v, phi) / 2,
        ),
        Misconception(
            "Result negated in place of the vector",
            "φ(−v) is the network of the negative vector: φ(v) + (−φ(v)) is always 0.",
            lambda v, phi: torch.zeros_like(v),
        ),
        Misconception(
            "Network's sign removed",
            "Asked for is a network of v and −v, not the absolute value of its answer.",
            lambda v, phi: torch.stack([phi(u).abs() for u in v.unbind(1)], 1),
        ),
        Misconception(
            "First column for all",
            "Every column has its own sum.",
            lambda v, phi: sign_invariant(v, phi)[:, :1].expand_as(v),
        ),
    ),
    properties=(
        Property(
            "The result is the same for the negative vectors",
            lambda answer, v, phi: torch.allclose(answer(v, phi), answer(-v, phi)),
        ),
    ),
    explanation=r"""
The sum does not change when $v$ and $-v$ are exchanged, so that it is a function of the {prf:ref}`projector <thm-trees-projector>` $v v^\top$ if the eigenvalue is simple.
Applied to one entry at a time, $\phi(v_i) + \phi(-v_i)$ depends on $\lvert v_i \rvert$ alone, and the products $v_i v_j$, which say which nodes are on the same side, are lost.
""",
)


# trees-and-graphs-7: two steps by hand


def back_after_two(neighbors):
    """Return the probability to be back after two steps: a float.

    ``neighbors`` are the degrees of the node's neighbors, a tuple of integers.
    """
    return sum(1 / degree for degree in neighbors) / len(neighbors)


TWO = Exercise(
    name="trees-and-graphs-7",
    title="Back after two steps",
    kind="by hand",
    minutes=5,
    lines=1,
    statement=r"""
A node has neighbors with the degrees `neighbors`, and no edge to itself.
A random walk goes to one of them, all with the same probability, and from there on in the same way.
Return the probability that it is back after two steps.
For which node of a star is it 1?
""",
    hint=r"""
The walk is at neighbor $j$ with the probability 1 over the number of neighbors; from there, one of $d_j$ edges leads back.
""",
    cases=(((2,),), ((1, 1, 1),), ((2, 3),), ((1, 4, 4, 3),)),
    solution=back_after_two,
    misconceptions=(
        Misconception(
            "Sum without a mean",
            "The walk goes to *one* of the neighbors: each has its probability.",
            lambda neighbors: sum(1 / d for d in neighbors),
        ),
        Misconception(
            "Own degree in place of the neighbors'",
            "On the way back the edges of the neighbor count.",
            lambda neighbors: 1 / len(neighbors),
        ),
        Misconception(
            "Mean of the degrees inverted",
            "The mean of 1/d is not 1 over the mean of d.",
            lambda neighbors: len(neighbors) / sum(neighbors),
        ),
        Misconception(
            "Probabilities multiplied over all neighbors",
            "The walk takes one of the ways, and their probabilities add.",
            lambda neighbors: float(np.prod([1 / d for d in neighbors])),
        ),
        Misconception(
            "One step",
            "Without an edge to itself a node is never reached again after one step.",
            lambda neighbors: 0.0,
        ),
        Misconception(
            "Mean of the degrees",
            "From a neighbor of degree d, one of d edges leads back: 1/d, not d.",
            lambda neighbors: sum(neighbors) / len(neighbors),
        ),
        Misconception(
            "Way back counted without the edge of the way there",
            "The walk may go back over the edge on which it came: all d edges count.",
            lambda neighbors: (
                sum(1 / max(d - 1, 1) for d in neighbors) / len(neighbors)
            ),
        ),
        Misconception(
            "Node's own degree twice",
            "The neighbors' degrees count on the way back.",
            lambda neighbors: 1 / len(neighbors) ** 2,
        ),
    ),
    explanation=r"""
$(M^2)_{ii} = \sum_j \frac{1}{d_i} \cdot \frac{1}{d_j}$ over the neighbors $j$: the mean of $1/d_j$, column 2 of the {prf:ref}`random-walk encoding <def-trees-walk-box>`.
It is 1 if all neighbors have the degree 1, as those of the center of a star have.
""",
)


# trees-and-graphs-8: return probabilities


def returns(adjacency, steps):
    """Return the probabilities to be back after 1 … steps, ``[nodes, steps]``.

    ``adjacency`` is the symmetric matrix of the edges; every node has an edge.
    """
    walk = adjacency / adjacency.sum(axis=0)
    powers = [np.linalg.matrix_power(walk, t) for t in range(1, steps + 1)]
    return np.stack([np.diagonal(power) for power in powers], axis=1)


def _of_walk(walk, first=1):
    """Make a wrong answer: another matrix, or powers from another one on."""

    def answer(a, steps):
        powers = [
            np.linalg.matrix_power(walk(a), t) for t in range(first, first + steps)
        ]
        return np.stack([np.diagonal(power) for power in powers], axis=1)

    return answer


def _tailed():
    """A triangle with a tail of one node."""
    a = np.zeros((4, 4))
    for i, j in ((0, 1), (1, 2), (2, 0), (2, 3)):
        a[i, j] = a[j, i] = 1
    return a


RETURNS = Exercise(
    name="trees-and-graphs-8",
    title="The random-walk encoding",
    kind="NumPy",
    minutes=8,
    lines=3,
    statement=r"""
Return the probabilities that a random walk is back at its first node after 1, 2, …, `steps` steps, `[nodes, steps]`: $p_{it} = (M^t)_{ii}$ with $M = A D^{-1}$.
Every node has an edge.
Does $D^{-1} A$ give the same?
""",
    hint=r"""
`np.linalg.matrix_power` and `np.diagonal`.
The first column belongs to one step.
""",
    cases=((_path(2), 2), (_path(3), 2), (_tailed(), 3), (_star(4), 4)),
    solution=returns,
    misconceptions=(
        Misconception(
            "Walks counted",
            "Powers of A count the walks. Divide by the degrees for probabilities.",
            _of_walk(lambda a: a),
        ),
        Misconception(
            "From no step on",
            "The first column belongs to one step, not to none.",
            _of_walk(lambda a: a / a.sum(axis=0), first=0),
        ),
        Misconception(
            "From two steps on",
            "The first column belongs to one step, though it is 0 without loops.",
            _of_walk(lambda a: a / a.sum(axis=0), first=2),
        ),
        Misconception(
            "Powers of each entry",
            "`**` raises entries; the steps of a walk are a product of matrices.",
            lambda a, steps: np.stack(
                [np.diagonal((a / a.sum(axis=0)) ** t) for t in range(1, steps + 1)], 1
            ),
        ),
        Misconception(
            "Lazy walk",
            "Your walk stays where it is with probability ½ in each step. This one always moves.",
            _of_walk(lambda a: (np.eye(len(a)) + a / a.sum(axis=0)) / 2),
        ),
        Misconception(
            "Laplacian in place of the walk",
            "The powers of I − M are not those of the walk.",
            _of_walk(lambda a: np.eye(len(a)) - a / a.sum(axis=0)),
        ),
        Misconception(
            "Largest degree for all",
            "Each node's own degree divides its column.",
            _of_walk(lambda a: a / a.sum(axis=0).max()),
        ),
        Misconception(
            "Last power alone",
            "Each column has a power of its own.",
            lambda a, steps: np.repeat(returns(a, steps)[:, -1:], steps, axis=1),
        ),
    ),
    explanation=r"""
$D^{-1} A = D^{-1} (A D^{-1}) D$ is similar to $M$ by a diagonal matrix, and so are their powers: the diagonals are equal, {eq}`def-trees-walk`.
Entries off the diagonal differ: one matrix has columns that sum to 1, the other rows.
""",
)


# trees-and-graphs-9: experiment


def first_difference(one, two, most):
    """Return the first number of steps whose return probabilities differ: an integer.

    ``one`` and ``two`` are adjacency matrices of equal size whose nodes are in any
    order; 0 if nothing differs up to ``most`` steps.
    """
    left, right = (np.sort(returns(a, most), axis=0) for a in (one, two))
    differs = (np.abs(left - right) > 1e-9).any(axis=0)
    return int(differs.argmax()) + 1 if differs.any() else 0


def _two_rings(n):
    """Two separate rings of n nodes."""
    return np.kron(np.eye(2), _cycle(n))


def _shuffled(a):
    order = np.argsort(draw(len(a)))
    return a[np.ix_(order, order)]


def _joined_rings(size, shared):
    """Ten nodes: two rings of five and a bond, or a ring of ten with a chord."""
    a = _cycle(10) if shared else np.kron(np.eye(2), _cycle(5))
    a[0, size - 1] = a[size - 1, 0] = 1
    return a


DIFFERENCE = Exercise(
    name="trees-and-graphs-9",
    title="Graphs that walks distinguish",
    kind="experiment",
    minutes=10,
    lines=3,
    statement=r"""
Two graphs have as many nodes, listed in any order.
After how many steps do the return probabilities of the one, taken as a set, first differ from those of the other?
Return this number, or 0 if they do not differ up to `most` steps; numbers that differ by at most $10^{-9}$ are equal.
The third case is a ring of six against two rings of three.
Why is its number 3?
""",
    hint=r"""
Sort each column of both, and compare; your answer to trees-and-graphs-8 makes the columns.
""",
    cases=(
        (_path(4), _star(4), 4),
        (_shuffled(_path(5)), _path(5), 6),
        (_cycle(6), _two_rings(3), 6),
        (_joined_rings(6, True), _shuffled(_joined_rings(6, False)), 8),
        (_cycle(6), _two_rings(3), 2),
        (_cycle(8), _two_rings(4), 8),
        (_star(4), _cycle(4), 4),
        (_star(4), _tailed(), 4),
        (_star(4), np.kron(np.eye(2), _path(2)), 4),
    ),
    solution=first_difference,
    misconceptions=(
        Misconception(
            "Nodes compared by their numbers",
            "The nodes are listed in any order: sort each column first.",
            lambda one, two, most: next(
                (
                    t + 1
                    for t in range(most)
                    if np.abs(returns(one, most) - returns(two, most))[:, t].max()
                    > 1e-9
                ),
                0,
            ),
        ),
        Misconception(
            "Steps counted from 0",
            "The first column is that of one step.",
            lambda one, two, most: max(first_difference(one, two, most) - 1, 0),
        ),
        Misconception(
            "Means compared",
            "Different nodes can have the same mean: compare all nodes.",
            lambda one, two, most: next(
                (
                    t + 1
                    for t in range(most)
                    if abs(
                        returns(one, most)[:, t].mean()
                        - returns(two, most)[:, t].mean()
                    )
                    > 1e-9
                ),
                0,
            ),
        ),
        Misconception(
            "Number of steps that differ",
            "The first of them is asked for.",
            lambda one, two, most: int(
                (
                    np.abs(
                        np.sort(returns(one, most), 0) - np.sort(returns(two, most), 0)
                    )
                    > 1e-9
                )
                .any(0)
                .sum()
            ),
        ),
        Misconception(
            "Nothing found for a difference at the end",
            "Your answer is `most` where nothing differs; it should be 0.",
            lambda one, two, most: first_difference(one, two, most) or most,
        ),
        Misconception(
            "Equal numbers taken for different ones",
            "Roundings are no difference: compare to 1e-9.",
            lambda one, two, most: first_difference(one, two, most) or 1,
        ),
        Misconception(
            "Largest entry compared",
            "The largest entries can agree where others differ.",
            lambda one, two, most: next(
                (
                    t + 1
                    for t in range(most)
                    if abs(
                        returns(one, most)[:, t].max() - returns(two, most)[:, t].max()
                    )
                    > 1e-9
                ),
                0,
            ),
        ),
        Misconception(
            "Degrees compared",
            "Graphs with equal degrees may differ, as rings do.",
            lambda one, two, most: int(
                (np.sort(one.sum(0)) != np.sort(two.sum(0))).any()
            ),
        ),
    ),
    explanation=r"""
A walk of three steps comes back only around a triangle, and the ring of six has none: column 3 is 0 there and $\frac14$ in rings of three.
Columns 1 and 2 depend on degrees alone, and all are 2.
Refined colors never distinguish these two graphs, and walks do, {prf:ref}`whatever the order of the nodes <thm-trees-walk>`.
""",
    prediction=Prediction(
        "A ring of eight against two rings of four: after how many steps do they differ?",
        lambda: first_difference(_cycle(8), _two_rings(4), 8),
    ),
)


SHEET = Sheet(
    title="Trees and graphs",
    conventions=r"""
A path is a tuple of branches from the root down, and branches count from 0.
Graphs have no loops, and edges have no direction: adjacency matrices are symmetric, with 1 for an edge.
""",
    example=r"""
from posedu.numpy.graph import return_probabilities

path = np.eye(3, k=1) + np.eye(3, k=-1)
print(return_probabilities(path, 4))
""",
    figure="trees_and_graphs_explorable",
    exercises=(
        *(STEPS, PRODUCT, HUNT, LAPLACIAN, PROJECTORS, SIGNS),
        *(TWO, RETURNS, DIFFERENCE),
    ),
)
