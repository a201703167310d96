"""Exercises on state tracking: what products of transitions compute of a word."""

import numpy as np
import sympy as sp
import torch

from posedu.book.exercises.records import (
    Exercise,
    Hunt,
    Misconception,
    Prediction,
    Property,
    Repair,
    Sheet,
    draw,
)

# state-tracking-1: words and their products


def words_and_products(n, m):
    """Numbers of words and of products of n letters over m letters, two ints.

    The letters' transitions commute, and words have the same product only if every
    letter occurs equally often in both.
    """
    return m**n, int(sp.binomial(n + m - 1, n))


def _counted(products, words=lambda n, m: m**n):
    return lambda n, m: (words(n, m), products(n, m))


def _binomial(n, k):
    return int(sp.binomial(n, k))


def _right_products(n, m):
    return words_and_products(n, m)[1]


COUNTS = Exercise(
    name="state-tracking-1",
    title="Words and their products",
    kind="by hand",
    minutes=8,
    lines=1,
    statement=r"""
Each of $m$ letters has a transition, and these transitions commute.
They are as different as they can be: two words have the same product only if every letter occurs equally often in both.
How many words of $n$ letters are there, and how many different products?
Return both, as integers.
How does each number grow with $n$?
""",
    hint=r"""
A product is determined by $m$ counts, from 0 on, with the sum $n$.
Write the counts as $n$ stars with $m - 1$ bars between them.
""",
    cases=((1, 2), (2, 2), (3, 2), (2, 3), (5, 1), (4, 3), (3, 5), (10, 3)),
    solution=words_and_products,
    misconceptions=(
        Misconception(
            "Every word with a product of its own",
            "The words a, b and b, a have the same product: the transitions commute.",
            _counted(lambda n, m: m**n),
        ),
        Misconception(
            "n to the power m",
            "Each of the n places has m choices.",
            _counted(_right_products, words=lambda n, m: n**m),
        ),
        Misconception(
            "Number of places times number of letters",
            "Choices at different places multiply.",
            _counted(_right_products, words=lambda n, m: n * m),
        ),
        Misconception(
            "Words without a repeated letter",
            "A letter may occur several times.",
            _counted(_right_products, words=lambda n, m: int(sp.ff(m, n))),
        ),
        Misconception(
            "Each count free",
            "The m counts have the sum n, so they are not independent.",
            _counted(lambda n, m: (n + 1) ** m),
        ),
        Misconception(
            "All counts but one free",
            "The other counts must leave at least 0 for the last one.",
            _counted(lambda n, m: (n + 1) ** (m - 1)),
        ),
        Misconception(
            "One bar too many",
            "Between m counts there are m − 1 bars.",
            _counted(lambda n, m: _binomial(n + m, n)),
        ),
        Misconception(
            "One star too few",
            "There are n stars and m − 1 bars.",
            _counted(lambda n, m: _binomial(n + m - 1, n - 1)),
        ),
        Misconception(
            "Every letter at least once",
            "A letter need not occur in a word.",
            _counted(lambda n, m: _binomial(n - 1, m - 1)),
        ),
        Misconception(
            "Sets of letters",
            "A letter may occur several times, and how often does matter.",
            _counted(lambda n, m: _binomial(m, n)),
        ),
        Misconception(
            "Words up to length n",
            "Words of exactly n letters are asked for.",
            _counted(
                _right_products, words=lambda n, m: sum(m**k for k in range(n + 1))
            ),
        ),
        Misconception(
            "Words divided by the orders",
            "Words with repeated letters have fewer than n! orders.",
            _counted(lambda n, m: m**n // int(sp.factorial(n))),
        ),
        Misconception(
            "Two letters only",
            "n + 1 is right for m = 2.",
            _counted(lambda n, m: n + 1),
        ),
        Misconception(
            "One product for each letter",
            "How often each letter occurs does matter.",
            _counted(lambda n, m: m),
        ),
        Misconception(
            "Two results exchanged",
            "The words come first, then the products.",
            lambda n, m: words_and_products(n, m)[::-1],
        ),
    ),
    properties=(
        Property(
            "With one letter there is one word and one product",
            lambda answer, n, m: tuple(answer(n, 1)) == (1, 1),
        ),
    ),
    explanation=r"""
Each of $n$ places has $m$ choices, so there are $m^n$ words.
A product is determined by the counts of the letters, and $m$ counts with the sum $n$ are $n$ stars among $m - 1$ bars, $\binom{n + m - 1}{n}$ of them.
Words grow exponentially with $n$, products like $n^{m - 1}$: after ten letters over three, 59,049 words share 66 products.
So transitions that commute {prf:ref}`track a word problem only if its letters commute <thm-state-commuting>`.
""",
    prediction=Prediction(
        "There are 59,049 words of ten letters over three. How many products do they have if the transitions commute?",
        lambda: words_and_products(10, 3)[1],
        near=0.1,
    ),
)


# state-tracking-2: swaps by reflections


def swap_product(swaps, n):
    """Product of the reflections of the swaps, [n, n], the latest at the left.

    ``swaps`` is a list of pairs (a, b), a < b, of the cups 0 … n − 1, the first first.
    Column j of the product is the unit vector of the cup in which ball j is at last.
    """
    product = np.eye(n)
    for a, b in swaps:
        w = np.zeros(n)
        w[a], w[b] = np.sqrt(0.5), -np.sqrt(0.5)
        product = product - 2 * np.outer(w, w @ product)
    return product


def colleagues_product(swaps, n):
    """Permutation matrix [n, n] of the swaps.

    ``swaps`` is a list of pairs (a, b), a < b, of cups.
    """
    product = np.eye(n)
    for a, b in sorted(set(swaps)):
        if swaps.count((a, b)) % 2:
            product[[a, b]] = product[[b, a]]
    return product


def _product_by(w, beta=2.0):
    """Make a wrong answer to the exercise ``swap_product``.

    ``w`` takes the unit vectors of a swap's two cups and returns its direction.
    """

    def answer(swaps, n):
        product, e = np.eye(n), np.eye(n)
        for a, b in swaps:
            direction = w(e[a], e[b])
            product = product - beta * np.outer(direction, direction @ product)
        return product

    return answer


def _difference(x, y):
    return (x - y) / np.sqrt(2)


def _with_swaps(change):
    """Make a wrong answer that applies other swaps, ``change(swaps)``."""
    return lambda swaps, n: swap_product(change(swaps), n)


_RANDOM_SWAPS = [(0, 3), (1, 2), (2, 4), (0, 3), (3, 4), (1, 4), (0, 2)]

SWAPS = Exercise(
    name="state-tracking-2",
    title="Swaps by reflections",
    kind="NumPy",
    minutes=10,
    lines=5,
    statement=r"""
Ball $j$ starts in cup $j$.
A swap $(a, b)$ exchanges the contents of the cups $a$ and $b$; its transition is a reflection, $I - 2 w w^\top$ with a unit vector $w$.
Return the product of the swaps' reflections, `[n, n]`, the latest at the left: its column $j$ is the unit vector of the cup in which ball $j$ ends.
Which $w$ belongs to a swap, and where is ball 0 after the swaps (0, 1), (1, 2)?
""",
    hint=r"""
The swap leaves $e_a + e_b$ as it is, and reverses $e_a - e_b$.
""",
    cases=(
        ([(0, 1)], 2),
        ([(0, 1), (1, 2)], 3),
        ([(1, 2), (0, 1)], 3),
        ([(0, 2), (0, 2)], 3),
        ([], 3),
        (_RANDOM_SWAPS, 5),
    ),
    solution=swap_product,
    misconceptions=(
        Misconception(
            "Swaps sorted and counted modulo 2",
            "A swap undoes itself only if no other swap of its cups comes between: the "
            "order matters.",
            colleagues_product,
        ),
        Misconception(
            "Matrices in the wrong order",
            "The first swap acts first, so its matrix stands at the right. Yours swaps "
            "balls, wherever they are, not cups.",
            lambda swaps, n: swap_product(swaps, n).T,
        ),
        Misconception(
            "w not of length 1",
            "e_a − e_b has the length √2. Divide by it.",
            _product_by(lambda x, y: x - y),
        ),
        Misconception(
            "Sum of the unit vectors",
            "The swap leaves e_a + e_b as it is. Yours reverses that direction.",
            _product_by(lambda x, y: (x + y) / np.sqrt(2)),
        ),
        Misconception(
            "Projection",
            "Strength 1 makes both cups' contents equal. A swap needs strength 2.",
            _product_by(_difference, beta=1.0),
        ),
        Misconception(
            "Sign of the transition reversed",
            "The transition is I minus 2 w wᵀ.",
            _product_by(_difference, beta=-2.0),
        ),
        Misconception(
            "One cup's unit vector",
            "I − 2 e_a e_aᵀ reverses a sign and moves nothing.",
            _product_by(lambda x, y: x),
        ),
        Misconception(
            "First swap left out",
            "All swaps act.",
            _with_swaps(lambda swaps: swaps[1:]),
        ),
        Misconception(
            "Last swap left out",
            "All swaps act.",
            _with_swaps(lambda swaps: swaps[:-1]),
        ),
        Misconception(
            "Last swap alone",
            "All swaps act, each on what the ones before have made.",
            _with_swaps(lambda swaps: swaps[-1:]),
        ),
        Misconception(
            "Each swap once",
            "A swap that occurs twice acts twice.",
            _with_swaps(lambda swaps: list(dict.fromkeys(swaps))),
        ),
        Misconception(
            "Nothing moved",
            "The product starts at the identity, and every swap changes it.",
            lambda swaps, n: np.eye(n),
        ),
        Misconception(
            "Neighbors of the first cup swapped",
            "The swap is of the cups a and b, whatever lies between.",
            _with_swaps(lambda swaps: [(a, a + 1) for a, b in swaps]),
        ),
        Misconception(
            "Reflections added",
            "Each swap acts on what the ones before have made: a product.",
            lambda swaps, n: (
                np.eye(n)
                + sum(
                    (swap_product([s], n) - np.eye(n) for s in swaps), np.zeros((n, n))
                )
            ),
        ),
    ),
    properties=(
        Property(
            "Each column is a unit vector",
            lambda answer, swaps, n: np.allclose(
                np.sort(answer(swaps, n), axis=0), np.sort(np.eye(n), axis=0)
            ),
        ),
    ),
    explanation=r"""
$w = (e_a - e_b)/\sqrt 2$: the reflection reverses $e_a - e_b$ and keeps everything across it, so it exchanges $e_a$ and $e_b$, {prf:ref}`the theorem on swaps <thm-path-swap>`.
The product of the reflections is {prf:ref}`the permutation matrix, in the right order <thm-state-swaps>`.
After (0, 1), (1, 2) ball 0 is in cup 2; after the same swaps in the other order it is in cup 1.
One reflection for each token is therefore enough to follow swaps, and the matrix of a permutation that is neither a swap nor the identity needs more (exercise state-tracking-7).
""",
)


# state-tracking-3: two words with the same counts


def swaps_with_wrong_product():
    """Return a smallest input on which `colleagues_product` is wrong.

    The answer is (swaps, n).
    """
    return [(1, 2), (0, 1)], 3


def _refused_swaps(swaps, n):
    if type(n) is not int or not 0 < n <= 9:
        return "n is an integer from 1 to 9"
    if not isinstance(swaps, list) or len(swaps) > 99:
        return "swaps are a list of at most 99 pairs"
    for swap in swaps:
        if not isinstance(swap, tuple) or len(swap) != 2:
            return "a swap is a tuple (a, b)"
        if {*map(type, swap)} != {int} or not 0 <= swap[0] < swap[1] < n:
            return "a swap (a, b) has integers with 0 ≤ a < b < n"
    return ""


SAME_COUNTS = Exercise(
    name="state-tracking-3",
    title="Find the input: the same counts",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_product` should do what exercise state-tracking-2 asks for.
She argues: a swap undoes itself, so only the number of its occurrences modulo 2 matters.
Her tests are one swap three times, two swaps of different cups in both orders, and the swaps (0, 1), (1, 2) in this order; all pass.
Find an input on which she is wrong; the smallest has the fewest swaps.
Which encodings look at nothing but the counts, as she does?
""",
    hint=r"""
What does `sorted` do to the swaps?
""",
    cases=((),),
    solution=swaps_with_wrong_product,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_product,
        right=swap_product,
        tested=(
            ([(0, 1)] * 3, 2),
            ([(0, 1), (2, 3)], 4),
            ([(2, 3), (0, 1)], 4),
            ([(0, 1), (1, 2)], 3),
        ),
        refusal=_refused_swaps,
        size=lambda swaps, n: len(swaps),
        size_of="number of swaps",
    ),
    explanation=r"""
Two swaps with one cup in common, in the order that `sorted` reverses, as (1, 2), (0, 1): the words $s, t$ and $t, s$ have the same counts and different products.
Swaps without a common cup commute, and so her second test cannot fail.
Her result is a function of the counts.
So are the products of RoPE, Selective RoPE, CARoPE, GRAPE-M, FoX, Wall and retention, {prf:ref}`whose transitions commute <thm-state-commuting>`, whatever angles and gates they choose.
Their products are the same for both words, so they answer wrongly for at least one of them.
""",
)


# state-tracking-4: which ball is in the cup


def ball_weights(swaps, n, cup, kappa):
    """Weights of the n balls in the attention of a query about a cup, float64 [n].

    ``swaps`` are pairs (a, b) of cups, the first first; ``cup`` is the query's cup, and
    ``kappa`` the logit of a moved key that is the unit vector of this cup.
    """
    keys = torch.eye(n, dtype=torch.float64)
    for a, b in swaps:
        w = torch.zeros(n, dtype=torch.float64)
        w[a], w[b] = 0.5**0.5, -(0.5**0.5)
        keys = keys - 2 * torch.outer(keys @ w, w)
    balls = (kappa * keys[:, cup]).exp()
    return balls / (balls.sum() + len(swaps))


def _keys(swaps, n):
    """Return the moved keys of the balls, [n, n], a row for each ball."""
    return torch.tensor(swap_product(swaps, n).T.copy())


def _weighed(logits, rest=lambda swaps: len(swaps)):
    """Make a wrong answer to the exercise ``ball_weights``.

    ``logits`` takes the moved keys, the cup and kappa; ``rest`` is the sum of the
    exponentials of the swaps' logits.
    """

    def answer(swaps, n, cup, kappa):
        e = logits(_keys(swaps, n), cup, kappa).exp()
        return e / (e.sum() + rest(swaps))

    return answer


def _of_swaps(change):
    return lambda swaps, n, cup, kappa: ball_weights(change(swaps), n, cup, kappa)


def _own_logits(keys, cup, kappa):
    return kappa * keys[:, cup]


BALLS = Exercise(
    name="state-tracking-4",
    title="Which ball is in the cup?",
    kind="PyTorch",
    minutes=15,
    lines=6,
    statement=r"""
A layer of PaTH reads $n$ ball tokens, then swap tokens.
Ball $j$ has the key $e_j$, a swap the key 0; a swap's transition is the reflection that swaps its two coordinates, and a ball's is the identity.
The query of the last token asks for the ball in `cup`: its logit with a moved key is `kappa` times the key's coordinate `cup`.
Return the softmax weights of the $n$ balls, `[n]`; the swaps' keys take part in the softmax, too.
How large must $\kappa$ be for a weight of more than ½ on the right one of five balls after 1000 swaps?
""",
    hint=r"""
The logit of a swap token is 0, whatever moves its key.
""",
    cases=(
        ([(0, 1)], 2, 0, 2.0),
        ([(0, 1), (1, 2)], 3, 1, 5.0),
        ([(1, 2), (0, 1)], 3, 2, 1.0),
        ([], 3, 1, 1.0),
        (_RANDOM_SWAPS, 5, 3, 4.0),
    ),
    solution=ball_weights,
    misconceptions=(
        Misconception(
            "Swaps left out of the softmax",
            "A swap's key has the logit 0, and its exponential is 1.",
            _weighed(_own_logits, rest=lambda swaps: 0),
        ),
        Misconception(
            "One further key",
            "The query is that of the last token, not of a token after it.",
            _weighed(_own_logits, rest=lambda swaps: len(swaps) + 1),
        ),
        Misconception(
            "Last swap's key left out",
            "A query attends to its own token's key as well.",
            _weighed(_own_logits, rest=lambda swaps: max(len(swaps) - 1, 0)),
        ),
        Misconception(
            "Swaps with the logit 1",
            "A key of 0 has the logit 0, and its exponential is 1, not e.",
            _weighed(_own_logits, rest=lambda swaps: len(swaps) * np.e),
        ),
        Misconception(
            "Cup of a ball in place of the ball of a cup",
            "Your logits are one ball's coordinates. The query asks all balls for one "
            "coordinate.",
            _weighed(lambda keys, cup, kappa: kappa * keys[cup]),
        ),
        Misconception(
            "Keys not moved",
            "Each swap moves all keys before it.",
            _weighed(
                lambda keys, cup, kappa: (
                    kappa * torch.eye(len(keys), dtype=torch.float64)[:, cup]
                )
            ),
        ),
        Misconception(
            "Logits divided by √n",
            "κ is the logit itself, nothing else divides it.",
            _weighed(lambda keys, cup, kappa: kappa * keys[:, cup] / len(keys) ** 0.5),
        ),
        Misconception(
            "κ left out",
            "The logit is κ times the coordinate.",
            _weighed(lambda keys, cup, kappa: keys[:, cup]),
        ),
        Misconception(
            "κ negative",
            "The right ball has the largest logit.",
            _weighed(lambda keys, cup, kappa: -kappa * keys[:, cup]),
        ),
        Misconception(
            "Position of the right ball, without a softmax",
            "Weights are asked for: the others get a little, too.",
            lambda swaps, n, cup, kappa: _keys(swaps, n)[:, cup],
        ),
        Misconception(
            "Logits in place of weights",
            "The softmax is missing.",
            lambda swaps, n, cup, kappa: kappa * _keys(swaps, n)[:, cup],
        ),
        Misconception(
            "Exponentials in place of weights",
            "The weights are divided by the sum of all exponentials.",
            lambda swaps, n, cup, kappa: (kappa * _keys(swaps, n)[:, cup]).exp(),
        ),
        Misconception(
            "Last swap left out",
            "The query's own token moves the keys, too.",
            lambda swaps, n, cup, kappa: _weighed(
                _own_logits, rest=lambda s: len(swaps)
            )(swaps[:-1], n, cup, kappa),
        ),
        Misconception(
            "Each swap counted as two keys",
            "A swap is one token with one key.",
            _weighed(_own_logits, rest=lambda swaps: 2 * len(swaps)),
        ),
    ),
    properties=(
        Property(
            "The weights are those of one large logit and equal small ones",
            lambda answer, swaps, n, cup, kappa: np.isclose(
                float(answer(swaps, n, cup, kappa).max()),
                np.exp(kappa) / (np.exp(kappa) + n - 1 + len(swaps)),
            ),
        ),
    ),
    explanation=r"""
After the swaps exactly one ball's key is $e_{\text{cup}}$, by {prf:ref}`the theorem on swaps <thm-state-swaps>`; its logit is $\kappa$, and those of the other balls and of all swap tokens are 0.
So its weight is $e^\kappa / (e^\kappa + n - 1 + t)$ after $t$ swaps.
It exceeds ½ for $\kappa > \log(n - 1 + t)$: for five balls and 1000 swaps from $\log 1004 \approx 6.9$ on.
The logit that is needed grows with the logarithm of the length only, and the ball is right however long the text is.
""",
)


# state-tracking-5: flips that fade


def bias_for_half(n):
    """Bias b > 0 at which n flips by 1 − 2 σ(b) leave half of the signal.

    The absolute value of the n-fold product is ½. b is a SymPy expression; ``n`` is a
    SymPy number or symbol.
    """
    root = 2 ** (1 / n)
    return sp.log((root + 1) / (root - 1))


_N = sp.Symbol("n", positive=True)


def _of_root(bias):
    return lambda n: bias(2 ** (1 / n))


HALF_SIGNAL = Exercise(
    name="state-tracking-5",
    title="Flips that fade",
    kind="SymPy",
    minutes=10,
    lines=2,
    statement=r"""
A token of PaTH flips the sign of the key's part along $w$: it multiplies it by $1 - \beta$, where $\beta = 2\sigma(b)$ is below 2, so that $1 - \beta$ stays above $-1$.
Which $b > 0$ leaves half of the signal, in absolute value, after $n$ flips?
Return it exactly; `n` is a SymPy number or symbol.
How does $b$ grow for large $n$?
""",
    hint=r"""
$1 - 2\sigma(b) = -\tanh(b/2)$.
""",
    cases=((sp.Integer(1),), (sp.Integer(2),), (sp.Integer(10),), (_N,)),
    solution=bias_for_half,
    misconceptions=(
        Misconception(
            "Limit for long texts",
            "log(2n/log 2) is what b approaches for large n. Solve exactly.",
            lambda n: sp.log(2 * n / sp.log(2)),
        ),
        Misconception(
            "Strength in place of the flip",
            "β is not what multiplies the signal: that is 1 − β. Solve (β − 1)ⁿ = ½.",
            _of_root(lambda root: -sp.log(2 * root - 1)),
        ),
        Misconception(
            "σ in place of 2σ",
            "With β = σ(b) the factor 1 − β is above 0, and nothing flips.",
            _of_root(lambda root: -sp.log(1 / (1 - 1 / root) - 1)),
        ),
        Misconception(
            "Negative bias",
            "At −b the factor is the same without its sign: nothing flips. b is above 0.",
            _of_root(lambda root: sp.log((root - 1) / (root + 1))),
        ),
        Misconception(
            "Root missing",
            "n flips multiply: each must leave 2^(−1/n).",
            lambda n: sp.log(3) + 0 * n,
        ),
        Misconception(
            "Half divided among the flips",
            "n flips multiply, they do not add up: each must leave 2^(−1/n).",
            lambda n: sp.log((2 * n + 1) / (2 * n - 1)),
        ),
        Misconception(
            "tanh(b) in place of tanh(b/2)",
            "1 − 2σ(b) = −tanh(b/2).",
            _of_root(lambda root: sp.log((root + 1) / (root - 1)) / 2),
        ),
        Misconception(
            "Loss of each flip taken for half of the whole",
            "The loss per flip is about log 2/n, and 1 − σ(b) is half of that.",
            lambda n: sp.log(n / sp.log(2)),
        ),
        Misconception(
            "Strength of half the signal",
            "β = 1 + 2^(−1/n) is right. The bias b with 2σ(b) = β is asked for.",
            _of_root(lambda root: 1 + 1 / root),
        ),
        Misconception(
            "Factor 2 of the strength lost",
            "β = 2σ(b): take the logit of β/2.",
            _of_root(lambda root: sp.log(root + 1)),
        ),
        Misconception(
            "Logarithm of the half to n",
            "Each flip must leave the n-th *root* of ½, not its power.",
            lambda n: sp.log((2**n + 1) / (2**n - 1)),
        ),
        Misconception(
            "Quarter of the signal",
            "Half of the signal must remain.",
            lambda n: bias_for_half(n / 2),
        ),
    ),
    properties=(
        Property(
            "The result is exact, without floats",
            lambda answer, n: not sp.sympify(answer(n)).has(sp.Float),
        ),
        Property(
            "More flips need a larger bias",
            lambda answer, n: float(answer(sp.Integer(9)) - answer(sp.Integer(3))) > 0,
        ),
    ),
    explanation=r"""
$1 - 2\sigma(b) = -\tanh(b/2)$ must be $-2^{-1/n}$, and $\tanh(b/2) = (e^b - 1)/(e^b + 1)$ gives $e^b = (2^{1/n} + 1)/(2^{1/n} - 1)$, {prf:ref}`the bias that a length needs <thm-state-beta>`.
For large $n$ it is $2^{1/n} - 1 \approx \log 2/n$, so that $b \approx \log(2n/\log 2)$: it grows with the logarithm of the length, by 0.69 for each doubling.
At 4096 flips it is 9.4; at the initial $b = 0$ the transition is a projection, and the first flip erases the signal.
""",
    prediction=Prediction(
        "Which $b$ leaves half of the signal after 4096 flips?",
        lambda: float(bias_for_half(sp.Integer(4096))),
        near=0.1,
    ),
)


# state-tracking-6: sign changes of gates


def sign_changes(a, gates, longest):
    """Number of sign changes, an int, of the scores s_n, n = 0 … longest − 1.

    s_n is Σ_c a_c λ_cⁿ; ``a`` and ``gates``, the λ, are [channels]. Scores of 0 are
    left out.
    """
    scores = a @ gates[:, None] ** np.arange(longest)
    signs = np.sign(scores[scores != 0])
    return int((signs[1:] != signs[:-1]).sum())


def _lagrange(gates):
    """Return the coefficients of scores that are ±1 in turn, one for each gate."""
    return np.array(
        [
            np.prod([(1 + r) / (r - c) for r in gates if r != c], initial=1.0)
            for c in gates
        ]
    )


def _scores(a, gates, longest):
    return (a[:, None] * gates[:, None] ** np.arange(longest)).sum(0)


def _sign_case(a, gates, longest):
    return np.array(a, dtype=float), np.array(gates, dtype=float), longest


_DYADIC = np.array([1.0, 0.5, 0.25, 0.125])

SIGN_CHANGES = Exercise(
    name="state-tracking-6",
    title="Sign changes of gates",
    kind="experiment",
    minutes=12,
    lines=3,
    statement=r"""
A gate multiplies a channel by a number $\lambda_c > 0$ for each 1 of a text, so that after $n$ ones a score is $s_n = \sum_c a_c \lambda_c^n$, with coefficients of either sign.
Parity would need a sign that changes with every 1.
Count the sign changes of $s_0, s_1, \dots, s_{N-1}$ with $N$ = `longest`, zeros left out.
Then try many random coefficients with 2, 3 and 4 gates: how often does the sign change at most, and what happens if you make the text longer?
""",
    hint=r"""
`np.sign`, without the zeros, and compare neighbors.
""",
    cases=(
        _sign_case([1, -3], [0.5, 1], 1),
        _sign_case([4, -3], [0.5, 1], 2),
        _sign_case([-2, 1], [0.5, 1], 4),  # −1, 0, ½ …
        _sign_case([1, -1, 0.25], [0.25, 0.5, 1], 4),  # ¼, 0, 1/16 …
        _sign_case([-1, 1, -0.25], [0.25, 0.5, 1], 4),
        _sign_case([1, -1], [0.5, 0.25], 5),  # 0, ¼, …
        _sign_case([1, 2], [0.5, 0.25], 5),
        (_lagrange(_DYADIC[:3]), _DYADIC[:3], 9),
        (_lagrange(_DYADIC), _DYADIC, 6),
        (-_lagrange(_DYADIC), _DYADIC, 3),
        _sign_case([-1, 3, -1], [0.5, 0.25, 0.125], 12),
    ),
    solution=sign_changes,
    misconceptions=(
        Misconception(
            "Scores with an odd count",
            "A negative score is no change. Compare the sign with that of the score "
            "before.",
            lambda a, gates, longest: int((_scores(a, gates, longest) < 0).sum()),
        ),
        Misconception(
            "Zeros counted as a sign of their own",
            "From −1 over 0 to ½ the sign changes once, and from ¼ over 0 to 1/16 "
            "never.",
            lambda a, gates, longest: int(
                (np.diff(np.sign(_scores(a, gates, longest))) != 0).sum()
            ),
        ),
        Misconception(
            "Zeros counted as positive",
            "Scores of 0 are left out.",
            lambda a, gates, longest: int(
                (np.diff((_scores(a, gates, longest) >= 0).astype(int)) != 0).sum()
            ),
        ),
        Misconception(
            "Zeros counted as negative",
            "Scores of 0 are left out.",
            lambda a, gates, longest: int(
                (np.diff((_scores(a, gates, longest) > 0).astype(int)) != 0).sum()
            ),
        ),
        Misconception(
            "Products of neighbors",
            "Where a score is 0 both products with its neighbors are 0: take out the "
            "zeros first.",
            lambda a, gates, longest: int(
                (
                    _scores(a, gates, longest)[1:] * _scores(a, gates, longest)[:-1] < 0
                ).sum()
            ),
        ),
        Misconception(
            "Sign changes of the coefficients",
            "The signs of the scores are asked for, not those of the a_c.",
            lambda a, gates, longest: int((np.diff(np.sign(a)) != 0).sum()),
        ),
        Misconception(
            "The theorem's bound",
            "d − 1 is the largest number that d gates can have. Count.",
            lambda a, gates, longest: len(a) - 1,
        ),
        Misconception(
            "Counts from 1",
            "The first score is s_0, the sum of the coefficients.",
            lambda a, gates, longest: sign_changes(a * gates, gates, longest),
        ),
        Misconception(
            "One score too many",
            "The scores are s_0 … s_(N−1), N of them.",
            lambda a, gates, longest: sign_changes(a, gates, longest + 1),
        ),
        Misconception(
            "One score too few",
            "The scores are s_0 … s_(N−1), N of them.",
            lambda a, gates, longest: sign_changes(a, gates, longest - 1),
        ),
        Misconception(
            "Differences of the scores",
            "Whether the score rises or falls is another question: look at its sign.",
            lambda a, gates, longest: int(
                (np.diff(np.sign(np.diff(_scores(a, gates, longest)))) != 0).sum()
            ),
        ),
        Misconception(
            "Change or no change",
            "The number of changes is asked for.",
            lambda a, gates, longest: int(sign_changes(a, gates, longest) > 0),
        ),
        Misconception(
            "Zeros of the score counted",
            "A sign may change between two counts without a score of 0.",
            lambda a, gates, longest: int((_scores(a, gates, longest) == 0).sum()),
        ),
        Misconception(
            "Coefficients' sizes",
            "Coefficients have both signs.",
            lambda a, gates, longest: sign_changes(np.abs(a), gates, longest),
        ),
    ),
    level="optional",
    explanation=r"""
$d$ different gates change the sign at most $d - 1$ times, {prf:ref}`as the chapter proves <thm-state-parity>`, however long the text is.
So a fixed number of gates cannot answer parity for texts of every length, while a rotation by $\pi$ changes the sign with every 1.
Coefficients with $d - 1$ changes exist for every $d$, but for scores of 1 and −1 in turn at the first $d$ counts they must grow {prf:ref}`like a power of 5.8 <thm-state-cost>`; random coefficients seldom change the sign more than once.
""",
)


# state-tracking-7: reflections that a permutation needs


def reflections_needed(permutation):
    """Smallest number of reflections whose product is a permutation matrix, an int.

    ``permutation`` is an integer array [n]; the matrix moves the unit vector j to
    ``permutation[j]``.
    """
    n = len(permutation)
    moved = np.eye(n)[permutation] - np.eye(n)
    return int(np.linalg.matrix_rank(moved))


def _cycles(permutation):
    """Return the lengths of the cycles of a permutation, fixed points included."""
    lengths, seen = [], set()
    for start in range(len(permutation)):
        length, at = 0, start
        while at not in seen:
            seen.add(at)
            length, at = length + 1, int(permutation[at])
        lengths += [length] * (length > 0)
    return lengths


def _of_cycles(number):
    return lambda permutation: int(number(_cycles(permutation)))


def _inversions(permutation):
    return int(
        sum(x > y for i, x in enumerate(permutation) for y in permutation[i + 1 :])
    )


PERMUTATION = Exercise(
    name="state-tracking-7",
    title="Reflections that a permutation needs",
    kind="NumPy",
    minutes=15,
    lines=3,
    statement=r"""
A product of $r$ reflections leaves a subspace of dimension $n - r$ or more unmoved.
So an orthogonal $\Pi$ needs at least $\operatorname{rank}(\Pi - I)$ reflections, and as many are enough.
Return this number for the permutation matrix that moves $e_j$ to $e_{p(j)}$, where `permutation` is $p$.
What is it in terms of the cycles of $p$?
Which permutations of five cups need four reflections, that is, four tokens of PaTH?
""",
    hint=r"""
Which vectors does a cycle of length $c$ leave unmoved?
""",
    cases=(
        (np.array([1, 0]),),
        (np.array([0, 1, 2]),),
        (np.array([1, 2, 0]),),
        (np.array([1, 0, 3, 2]),),
        (np.array([2, 1, 0]),),
        (np.array([1, 2, 3, 4, 0]),),
        (np.array([1, 0, 3, 4, 2]),),
        (np.array([4, 1, 0, 3, 2, 6, 5]),),
        (np.array([0]),),
    ),
    solution=reflections_needed,
    misconceptions=(
        Misconception(
            "Cups that move",
            "One reflection moves two cups.",
            lambda p: int((p != np.arange(len(p))).sum()),
        ),
        Misconception(
            "Half of the cups that move",
            "A cycle of three cups needs two reflections.",
            lambda p: int((p != np.arange(len(p))).sum() // 2),
        ),
        Misconception(
            "Half of the cups that move, rounded up",
            "A cycle of five cups needs four reflections.",
            lambda p: int(-(-(p != np.arange(len(p))).sum() // 2)),
        ),
        Misconception(
            "Number of cycles",
            "Your answer counts the unmoved dimensions. How many are left?",
            _of_cycles(len),
        ),
        Misconception(
            "Number of cycles that move something",
            "A cycle of c cups needs c − 1 reflections.",
            _of_cycles(lambda lengths: sum(c > 1 for c in lengths)),
        ),
        Misconception(
            "Swaps of neighbors",
            "Any two cups may be swapped, not only neighbors: that takes fewer.",
            _inversions,
        ),
        Misconception(
            "One less than the number of cups",
            "That is right for a single cycle.",
            lambda p: len(p) - 1,
        ),
        Misconception(
            "Longest cycle alone",
            "Every cycle needs reflections of its own.",
            _of_cycles(lambda lengths: max(lengths) - 1),
        ),
        Misconception(
            "Cups that move, less one",
            "One less for *each* cycle.",
            lambda p: max(int((p != np.arange(len(p))).sum()) - 1, 0),
        ),
        Misconception(
            "Even or odd",
            "The sign of the permutation is only the number modulo 2.",
            lambda p: _inversions(p) % 2,
        ),
        Misconception(
            "Order of the permutation",
            "How often it must be repeated until nothing is moved is another question.",
            _of_cycles(lambda lengths: np.lcm.reduce(lengths)),
        ),
        Misconception(
            "Rank of the matrix itself",
            "Π has full rank. What it moves is Π − I.",
            lambda p: len(p),
        ),
        Misconception(
            "Fixed points counted",
            "Cups that stay need no reflection.",
            lambda p: int((p == np.arange(len(p))).sum()),
        ),
        Misconception(
            "Distances of the moves",
            "A swap of distant cups is one reflection as well.",
            lambda p: int(np.abs(p - np.arange(len(p))).sum() // 2),
        ),
        Misconception(
            "Twice the number of swaps",
            "A reflection with w = (e_a − e_b)/√2 is a whole swap.",
            _of_cycles(lambda lengths: 2 * (sum(lengths) - len(lengths))),
        ),
    ),
    properties=(
        Property(
            "Nothing moved needs no reflection",
            lambda answer, permutation: answer(np.arange(len(permutation))) == 0,
        ),
    ),
    level="hard",
    explanation=r"""
A cycle leaves the sum of its unit vectors unmoved and nothing else, so the unmoved vectors have one dimension for each cycle, fixed points included: the number is $n$ minus the number of cycles, {prf:ref}`the theorem on permutations <thm-path-permutations>`.
With five cups it is 4 for a single cycle through all of them, and there are $4! = 24$ of these.
So one reflection for each token follows a stream of swaps, but not a stream of arbitrary permutations: a 3-cycle needs two tokens, or two reflections for a token.
""",
)


# state-tracking-8: a clock in half precision


def modular_scores(x, m):
    """Scores [tokens, m] of the queries "is the sum y?".

    ``x``, [tokens], holds integers from 0 to m − 1. Row t,
    column y is cos(2π (sum of x up to t − y)/m), the score
    of query y after token t, in float32.
    """
    total = x.cumsum(0) % m
    hours = total[:, None] - torch.arange(m)
    return (2 * torch.pi / m * hours).cos()


def _broken_modular_scores(x, m):
    """Scores [tokens, m] of the queries "is the sum y?".

    ``x``, [tokens], holds integers from 0 to m − 1. Row t,
    column y is cos(2π (sum of x up to t − y)/m), the score
    of query y after token t, in float32.
    """
    steps = (2 * torch.pi / m * x).bfloat16()
    angles = steps.cumsum(0).float()
    queries = 2 * torch.pi / m * torch.arange(m)
    return (angles[:, None] - queries).cos()


def symptom_of_long_texts(function):
    """Return the error of parity after 4096 ones."""
    ones = torch.ones(4096, dtype=torch.int64)
    return abs(function(ones, 2)[-1, 0].item() - 1)


def _modular(sums, queries=lambda m: torch.arange(m), turn=lambda m: 2 * torch.pi / m):
    """Make a wrong answer to the exercise ``modular_scores``.

    ``sums`` takes the letters and m; ``queries`` and ``turn`` take m and return the
    sums that are asked for, and the angle of 1.
    """

    def answer(x, m):
        return (turn(m) * (sums(x, m)[:, None] - queries(m))).cos().float()

    return answer


def _summed(x, m):
    return x.cumsum(0) % m


def _letters(tokens, m):
    return torch.tensor(np.abs(1e6 * draw(tokens)).astype(int)) % m, m


CLOCK = Exercise(
    name="state-tracking-8",
    title="Repair: a clock in half precision",
    kind="repair",
    minutes=10,
    lines=2,
    statement=r"""
Rotations by $2\pi x/m$ add modulo $m$, in theory for texts of any length.
`modular_scores` works on the first tokens; after 4096 ones the answer is wrong already for $m = 2$, parity.
Repair it, so that `symptom_of_long_texts` gives 0.
The results are checked to 1e-5, with 2000 letters.
Would float32 for the angles be enough, and does a product of rotation matrices do better than a sum of angles?
""",
    hint=r"""
What is exact here, the letters or the angles?
""",
    cases=(
        (torch.tensor([1, 0, 1]), 2),
        (torch.tensor([3, 4, 2]), 5),
        _letters(40, 3),
        _letters(500, 2),
        _letters(2000, 7),
    ),
    solution=modular_scores,
    misconceptions=(
        Misconception(
            "Angles in half precision",
            "The code is as it was: bfloat16 has 8 bits, too few for an angle of many "
            "turns.",
            _broken_modular_scores,
        ),
        Misconception(
            "Angles summed in float32",
            "Better, but 2000 letters make hundreds of turns, and the sum's error "
            "grows with it. Add what is exact.",
            lambda x, m: (
                (2 * torch.pi / m * x).float().cumsum(0)[:, None]
                - 2 * torch.pi / m * torch.arange(m)
            ).cos(),
        ),
        Misconception(
            "Sum exact, but not modulo m",
            "The sum is exact, and its angle in float32 is not: hundreds of turns "
            "leave few bits for the rest.",
            _modular(lambda x, m: x.cumsum(0)),
        ),
        Misconception(
            "Angles in half precision, reduced modulo 2π",
            "The sum has lost its bits before it is reduced.",
            lambda x, m: (
                ((2 * torch.pi / m * x).bfloat16().cumsum(0).float() % (2 * torch.pi))[
                    :, None
                ]
                - 2 * torch.pi / m * torch.arange(m)
            ).cos(),
        ),
        Misconception(
            "Token's own letter left out",
            "The score after token t has the letters up to its own.",
            _modular(lambda x, m: (x.cumsum(0) - x) % m),
        ),
        Misconception(
            "Letters without a sum",
            "The clock goes on from where the letters before have left it.",
            _modular(lambda x, m: x % m),
        ),
        Misconception(
            "Sum in place of the difference",
            "The score is largest where the sum *equals* y: the angles are subtracted.",
            _modular(_summed, queries=lambda m: -torch.arange(m)),
        ),
        Misconception(
            "Queries from 1",
            "Column 0 asks whether the sum is 0.",
            _modular(_summed, queries=lambda m: torch.arange(m) + 1),
        ),
        Misconception(
            "Half a turn for m",
            "m letters 1 are a full turn, 2π.",
            _modular(_summed, turn=lambda m: torch.pi / m),
        ),
        Misconception(
            "Turn of one step too few",
            "m steps are a full turn, not m − 1.",
            _modular(_summed, turn=lambda m: 2 * torch.pi / max(m - 1, 1)),
        ),
        Misconception(
            "Ones counted",
            "A letter x turns the clock by x steps, not by one.",
            _modular(lambda x, m: (x > 0).cumsum(0) % m),
        ),
        Misconception(
            "Places counted",
            "The letters turn the clock, not the tokens.",
            _modular(lambda x, m: torch.arange(len(x)) % m),
        ),
        Misconception(
            "Answer in place of a score",
            "The score is a cosine. 1 for the right query and 0 for all others is what "
            "a softmax with a large factor makes of it.",
            lambda x, m: (_summed(x, m)[:, None] == torch.arange(m)).float(),
        ),
        Misconception(
            "Repaired for the symptom only",
            "In `symptom_of_long_texts` m is 2. Use `m`.",
            lambda x, m: modular_scores(x % 2, 2).repeat(1, m)[:, :m],
        ),
    ),
    tolerance=1e-5,
    level="optional",
    explanation=r"""
The letters are integers, and their sum modulo $m$ is exact; only one angle below a full turn is then rounded, and the score is {prf:ref}`that of the theorem <thm-state-cyclic>` to the precision of a cosine.
Scores of angles summed in float32 are wrong in the fourth decimal after 2000 letters, and the error grows with the length, since a sum of many turns leaves few bits for the rest.
A product of matrices never has a large angle and drifts less, as the chapter measures; a trained layer sums angles that are not exact letters, so float64 for the sum is what it can do.
""",
    repair=Repair(_broken_modular_scores, symptom_of_long_texts),
)


SHEET = Sheet(
    title="State tracking",
    conventions=r"""
Words are read from left to right; in a product the latest transition stands at the left.
Cups and balls count from 0, and ball $j$ starts in cup $j$; $n$ cups have the coordinates 0 … $n - 1$ of a head.
""",
    example=r"""
from posedu.sympy.path import householder

swap = householder(sp.Matrix([1, -1, 0]), sp.Integer(1))
sp.pprint(swap)  # w = (e₀ − e₁)/√2 and β = 2
""",
    figure="state_tracking_explorable",
    exercises=(
        *(COUNTS, SWAPS, SAME_COUNTS, BALLS),
        *(HALF_SIGNAL, SIGN_CHANGES, PERMUTATION, CLOCK),
    ),
)
