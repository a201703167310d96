"""Exercises on geometric attention: a stick broken on both sides of the query."""

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

# geometric-1: equal shares


def weights_at_distance(beta, t):
    """Weights of the keys t tokens after and before the query, if all take ``beta``.

    ``beta`` and ``t`` are SymPy expressions; the text goes on far enough on both sides.
    Returns (after, before). They are not divided by the sum.
    """
    after = beta * (1 - beta) ** (2 * t - 2)
    return after, after * (1 - beta)


_BETA, _T = sp.symbols("beta t", positive=True)
_THIRD = sp.Rational(1, 3)


def _pair(after, before):
    return lambda beta, t: (
        beta * (1 - beta) ** after(t),
        beta * (1 - beta) ** before(t),
    )


EQUAL = Exercise(
    name="geometric-1",
    title="Equal shares",
    kind="by hand",
    minutes=8,
    lines=2,
    statement=r"""
All keys take the share $\beta$ of what is left, the nearest first, and at equal distances the key after the query first; the query skips its own key.
Return the weights of the keys $t$ tokens after and $t$ tokens before a query that has at least $t$ tokens on each side, exactly; `beta` and `t` are SymPy expressions.
By what factor do the weights fall from one distance to the next, and which side gets more?
""",
    hint=r"""
How many keys come before a key $t$ tokens after the query?
""",
    cases=(
        (sp.Rational(1, 2), sp.Integer(1)),
        (_THIRD, sp.Integer(2)),
        (_THIRD, sp.Integer(3)),
        (_BETA, _T),
    ),
    solution=weights_at_distance,
    misconceptions=(
        Misconception(
            "Key before the query first",
            "At equal distances the key *after* the query comes first.",
            _pair(lambda t: 2 * t - 1, lambda t: 2 * t - 2),
        ),
        Misconception(
            "Both sides alike, at the better place",
            "Of two keys at the same distance, one comes first and takes its share of "
            "more.",
            _pair(lambda t: 2 * t - 2, lambda t: 2 * t - 2),
        ),
        Misconception(
            "Both sides alike, at the worse place",
            "Of two keys at the same distance, one comes first.",
            _pair(lambda t: 2 * t - 1, lambda t: 2 * t - 1),
        ),
        Misconception(
            "Each side has its own stick",
            "There is one stick for both sides: keys on the other side that are nearer "
            "take their shares, too.",
            _pair(lambda t: t - 1, lambda t: t - 1),
        ),
        Misconception(
            "First all keys after the query",
            "The order is by distance, not by side.",
            _pair(lambda t: t - 1, lambda t: 2 * t - 1),
        ),
        Misconception(
            "Own key takes a share",
            "The query skips its own key.",
            _pair(lambda t: 2 * t - 1, lambda t: 2 * t),
        ),
        Misconception(
            "One key too many",
            "Count the keys that are nearer, without the key itself.",
            _pair(lambda t: 2 * t, lambda t: 2 * t + 1),
        ),
        Misconception(
            "Own share left out",
            "The key takes the share β of what is left.",
            lambda beta, t: tuple(w / beta for w in weights_at_distance(beta, t)),
        ),
        Misconception(
            "What is left after the key",
            "What the key takes is asked for, not what it leaves.",
            lambda beta, t: tuple(
                w * (1 - beta) / beta for w in weights_at_distance(beta, t)
            ),
        ),
        Misconception(
            "Share and rest exchanged",
            "A key takes β and leaves 1 − β.",
            lambda beta, t: weights_at_distance(1 - beta, t),
        ),
        Misconception(
            "Divided by the sum",
            "The weights are not divided by their sum here.",
            lambda beta, t: tuple(
                w / (beta * (2 - beta)) for w in weights_at_distance(beta, t)
            ),
        ),
    ),
    properties=(
        Property(
            "The results are exact, without floats",
            lambda answer, beta, t: not sp.Tuple(*answer(beta, t)).has(sp.Float),
        ),
    ),
    explanation=r"""
Before the key $t$ tokens after the query come the $2(t - 1)$ keys that are nearer; before the one $t$ tokens before it comes that key as well.
From one distance to the next the weights fall by $(1 - \beta)^2$, a geometric sequence: at equal shares it is a bias that falls in a straight line with the distance, as ALiBi's, and the key after the query gets $1/(1 - \beta)$ times as much as the one before.
{prf:ref}`The theorem on equal shares <thm-geometric-equal>` says so.
""",
)


# geometric-2: one query


def row_of_weights(logits, i):
    """Geometric weights of query i for all keys, [tokens], not divided by their sum.

    ``logits``, [tokens], are those of query i; their sigmoids are the shares.
    """
    shares = 1 / (1 + np.exp(-logits))
    nearest = sorted(range(len(logits)), key=lambda j: (abs(j - i), j < i))
    weights, rest = np.zeros(len(logits)), 1.0
    for j in nearest[1:]:
        weights[j] = rest * shares[j]
        rest -= weights[j]
    return weights


def _in_order(key, skip=1, share=lambda z: 1 / (1 + np.exp(-z)), start=1.0):
    """Make a wrong answer to the exercise ``row_of_weights``.

    ``key`` takes i and j, by which keys are sorted; ``skip`` is how many are left out;
    ``share`` takes logits.
    """

    def answer(logits, i):
        shares = share(logits)
        order = sorted(range(len(logits)), key=lambda j: key(i, j))
        weights, rest = np.zeros(len(logits)), start
        for j in order[skip:]:
            weights[j] = rest * shares[j]
            rest -= weights[j]
        return weights

    return answer


def _nearest(i, j):
    return abs(j - i), j < i


def _own_left(i, j):
    return j != i, abs(j - i), j > i


def colleagues_row(logits, i):
    """Geometric weights of query i, not divided."""
    distances = np.abs(np.arange(len(logits)) - i)
    order = np.argsort(distances, kind="stable")[1:]
    found, left = np.zeros(len(logits)), 1.0
    for j in order:
        found[j] = left / (1 + np.exp(-logits[j]))
        left -= found[j]
    return found


ROW = Exercise(
    name="geometric-2",
    title="The weights of one query",
    kind="NumPy",
    minutes=12,
    lines=6,
    statement=r"""
Return the weights of query $i$ in geometric attention: each key takes the share $\sigma(z_j)$ of what nearer keys on both sides leave.
At equal distances the key after the query comes first; the query skips its own key.
The weights are not divided by their sum.
What do they sum to?
""",
    hint=r"""
Sort the keys by distance; `sorted` takes a tuple as its key, so that a second number decides between equal ones.
""",
    cases=(
        (np.array([0.0, 0, 0, 0]), 1),
        (np.array([1.0, -1, 2]), 1),
        (draw(5), 0),
        (draw(6), 5),
        (draw(7), 2),
        (3 * draw(9), 5),
        (draw(1), 0),
    ),
    solution=row_of_weights,
    misconceptions=(
        Misconception(
            "Key before the query first",
            "At equal distances the key *after* the query comes first.",
            _in_order(_own_left),
        ),
        Misconception(
            "Own key takes a share",
            "The query skips its own key, which would be the nearest.",
            _in_order(_nearest, skip=0),
        ),
        Misconception(
            "Farthest key first",
            "The nearest key takes its share first.",
            _in_order(lambda i, j: (j != i, -abs(j - i), j < i)),
        ),
        Misconception(
            "From left to right",
            "The distance to the query decides the order.",
            _in_order(lambda i, j: (j != i, j)),
        ),
        Misconception(
            "First all keys after the query",
            "The order is by distance, not by side.",
            _in_order(lambda i, j: (j != i, j < i, abs(j - i))),
        ),
        Misconception(
            "First all keys before the query",
            "The order is by distance, not by side.",
            _in_order(lambda i, j: (j != i, j > i, abs(j - i))),
        ),
        Misconception(
            "Largest logit first",
            "The nearest key comes first, whatever its logit is.",
            lambda logits, i: _in_order(lambda i, j: (j != i, -logits[j]))(logits, i),
        ),
        Misconception(
            "Softmax",
            "Shares are sigmoids, one for each key by itself.",
            lambda logits, i: np.exp(logits) / np.exp(logits).sum(),
        ),
        Misconception(
            "Shares alone",
            "A key takes its share of what nearer keys leave.",
            lambda logits, i: (
                (1 / (1 + np.exp(-logits))) * (np.arange(len(logits)) != i)
            ),
        ),
        Misconception(
            "Logits in place of shares",
            "The share is the sigmoid of the logit.",
            _in_order(_nearest, share=lambda z: z),
        ),
        Misconception(
            "Exponentials in place of shares",
            "The share is the sigmoid of the logit.",
            _in_order(_nearest, share=np.exp),
        ),
        Misconception(
            "Sign of the logit reversed",
            "A large logit takes a large share.",
            _in_order(_nearest, share=lambda z: 1 / (1 + np.exp(z))),
        ),
        Misconception(
            "Keys after the query hidden",
            "Keys on both sides take part.",
            lambda logits, i: np.append(
                row_of_weights(logits[: i + 1], i), np.zeros(len(logits) - i - 1)
            ),
        ),
        Misconception(
            "Weights in the order of the visits",
            "weights[j] belongs to key j.",
            lambda logits, i: row_of_weights(logits, i)[
                sorted(range(len(logits)), key=lambda j: _nearest(i, j))
            ],
        ),
        Misconception(
            "Divided by the sum",
            "The weights are not divided here: what is left of the stick goes to no "
            "key.",
            lambda logits, i: (
                row_of_weights(logits, i) / max(row_of_weights(logits, i).sum(), 1e-12)
            ),
        ),
    ),
    properties=(
        Property(
            "The weights and the product of all that keys leave sum to 1",
            lambda answer, logits, i: np.isclose(
                np.sum(answer(logits, i)),
                1 - np.prod(np.delete(1 / (1 + np.exp(logits)), i)),
            ),
        ),
    ),
    explanation=r"""
Sorted by `(abs(j - i), j < i)` the keys take their shares in turn.
They sum to 1 less {prf:ref}`the rest of the stick <thm-geometric-rest>`, which is the product of all $1 - \sigma(z_j)$.
The order decides who gets how much, and not what is left.
""",
)


# geometric-3: the nearer key, found


def tied_row():
    """Return a smallest input on which `colleagues_row` is wrong.

    The answer is (logits, i), an array of floats and an integer.
    """
    return np.array([0.0, 0.0, 0.0]), 1


def _refused_row(logits, i):
    if logits.ndim != 1 or logits.dtype != float or not 0 < len(logits) <= 64:
        return "logits are 1 to 64 floats in a row"
    if not np.abs(logits).max() <= 30:
        return "the logits are between −30 and 30"
    if type(i) is not int or not 0 <= i < len(logits):
        return "i is an integer, the index of one of the keys"
    return ""


TIE = Exercise(
    name="geometric-3",
    title="Find the input: two keys at one distance",
    kind="find the input",
    minutes=8,
    lines=1,
    statement=r"""
`colleagues_row` should do what exercise geometric-2 asks for.
Her tests: the first query and the last query of twelve random logits, and query 3 of seven keys of which only those after it have logits above −30.
All pass.
Find `logits` and `i` for which her function is wrong; the smallest input has the fewest keys.
For which queries is her function always right?
""",
    hint=r"""
Which of two keys at the same distance comes first after a stable sort?
""",
    cases=((),),
    solution=tied_row,
    misconceptions=(),
    hunt=Hunt(
        wrong=colleagues_row,
        right=row_of_weights,
        tested=(
            (draw(12), 0),
            (draw(12), 11),
            (np.array([-30.0, -30, -30, 0, 1, -1, 2]), 3),
        ),
        refusal=_refused_row,
        size=lambda logits, i: len(logits),
        size_of="number of keys",
    ),
    explanation=r"""
A stable sort keeps the order of equal distances, so the key *before* the query comes first in hers, as in a published port.
Two keys at the same distance need three tokens and the query in the middle.
For the first and the last query there are no such pairs, the two cases in which {prf:ref}`a mirrored text has mirrored weights <thm-geometric-mirror>`.
""",
)


# geometric-4: with the future masked


def causal_log_weights(logits):
    """Logarithms of the geometric weights of all queries, with the future masked.

    ``logits`` is [tokens, tokens]. The result has the same shape and dtype, is not
    divided by sums, and is −∞ for a query's own key and later ones.
    """
    hidden = torch.ones_like(logits, dtype=torch.bool).triu()
    cost = torch.nn.functional.softplus(logits).masked_fill(hidden, 0)
    spent = cost.flip(-1).cumsum(-1).flip(-1)
    return (logits - spent).masked_fill(hidden, -torch.inf)


def _causal(spend, diagonal=0):
    """Make a wrong answer to the exercise ``causal_log_weights``.

    ``spend`` takes the costs, softplus of the logits, and returns what is subtracted.
    """

    def answer(logits):
        hidden = torch.ones_like(logits, dtype=torch.bool).triu(diagonal)
        cost = torch.nn.functional.softplus(logits).masked_fill(hidden, 0)
        return (logits - spend(cost)).masked_fill(hidden, -torch.inf)

    return answer


def _suffix(cost):
    return cost.flip(-1).cumsum(-1).flip(-1)


def _through_products(logits):
    hidden = torch.ones_like(logits, dtype=torch.bool).triu()
    share = logits.sigmoid().masked_fill(hidden, 0)
    rest = (1 - share).flip(-1).cumprod(-1).flip(-1).roll(-1, -1)
    rest[:, -1] = 1
    return (share * rest).log()


CAUSAL = Exercise(
    name="geometric-4",
    title="With the future masked, in logarithms",
    kind="PyTorch",
    minutes=12,
    lines=4,
    statement=r"""
If a query sees earlier keys only, the order by distance is the order of the keys, and $A_{ij} = \sigma(z_{ij}) \prod_{l=j+1}^{i-1} (1 - \sigma(z_{il}))$.
Return $\log A$ for all queries at once, by a cumulative sum and without a product; it is $-\infty$ for the query's own key and later ones.
Logits of 40 must do no harm.
Whose weights are these?
""",
    hint=r"""
$\log \sigma(z) = z - \operatorname{softplus}(z)$ and $\log (1 - \sigma(z)) = -\operatorname{softplus}(z)$.
A cumulative sum from the right needs `flip` twice.
""",
    cases=(
        (torch.zeros(3, 3, dtype=torch.float64),),
        (torch.tensor(draw(4, 4)),),
        (torch.tensor(draw(6, 6, seed=1)),),
        (torch.tensor(40 * np.sign(draw(5, 5))),),
        (torch.tensor(draw(1, 1)),),
    ),
    solution=causal_log_weights,
    misconceptions=(
        Misconception(
            "Sum from the oldest key on",
            "The keys between key and query have taken their shares, not the older "
            "ones.",
            _causal(lambda cost: cost.cumsum(-1)),
        ),
        Misconception(
            "Key's own cost left out",
            "log σ(z) is z − softplus(z): the key's own softplus belongs to the sum.",
            _causal(lambda cost: _suffix(cost) - cost),
        ),
        Misconception(
            "Key's own cost counted twice",
            "The sum has the key's own softplus once.",
            _causal(lambda cost: _suffix(cost) + cost),
        ),
        Misconception(
            "Own key takes a share",
            "The query skips its own key: it is hidden, too.",
            _causal(_suffix, diagonal=1),
        ),
        Misconception(
            "Sum over the queries",
            "The keys of one query are a row.",
            _causal(lambda cost: cost.flip(0).cumsum(0).flip(0)),
        ),
        Misconception(
            "No keys between",
            "Each key between has taken its share of the stick.",
            _causal(lambda cost: cost),
        ),
        Misconception(
            "Whole row",
            "Only the keys between key and query have taken their shares.",
            _causal(lambda cost: cost.sum(-1, keepdim=True).expand_as(cost)),
        ),
        Misconception(
            "Costs added",
            "The sum of softplus is subtracted.",
            _causal(lambda cost: -_suffix(cost)),
        ),
        Misconception(
            "Next neighbor alone",
            "All keys between take their shares.",
            _causal(lambda cost: cost + torch.nn.functional.pad(cost, (0, 1))[:, 1:]),
        ),
        Misconception(
            "Logarithm of a product",
            "At z = 40 the product contains 1 − σ(z), which is rounded to 0, and its "
            "logarithm is −∞: add softplus instead.",
            _through_products,
        ),
        Misconception(
            "Costs of hidden keys counted",
            "Hidden keys take no share: their cost is 0.",
            lambda logits: (
                logits - _suffix(torch.nn.functional.softplus(logits))
            ).masked_fill(torch.ones_like(logits, dtype=torch.bool).triu(), -torch.inf),
        ),
        Misconception(
            "Weights in place of their logarithms",
            "The logarithm of the weights is asked for.",
            lambda logits: causal_log_weights(logits).exp(),
        ),
        Misconception(
            "Divided by the sum",
            "The weights are not divided by their sum here.",
            lambda logits: (
                causal_log_weights(logits)
                .log_softmax(-1)
                .nan_to_num(-torch.inf, neginf=-torch.inf)
            ),
        ),
        Misconception(
            "Softmax",
            "Shares are sigmoids, taken in turn.",
            lambda logits: (
                logits.masked_fill(
                    torch.ones_like(logits, dtype=torch.bool).triu(), -torch.inf
                )
                .log_softmax(-1)
                .nan_to_num(-torch.inf, neginf=-torch.inf)
            ),
        ),
    ),
    properties=(
        Property(
            "No weight is above 1",
            lambda answer, logits: bool((answer(logits.clone()) <= 1e-12).all()),
        ),
    ),
    explanation=r"""
They are {prf:ref}`stick-breaking's without the query's own key <thm-geometric-causal>`: the nearest key is the newest.
The sum of softplus from key $j$ to key $i - 1$ holds $-\log(1 - \sigma)$ for each key between, and for key $j$ itself the part that turns $z$ into $\log \sigma(z)$.
The first row has no key, so all its logarithms are $-\infty$.
On both sides the keys that come first are a range of neighbors, too, and their sum is a difference of two cumulative sums.
""",
)


# geometric-5: how far a match can be


def farthest_match(match, other, least, tokens):
    """Largest distance at which a matching key gets at least the weight ``least``.

    The query is the first of ``tokens`` tokens. One key takes the share ``match``, all
    others ``other``. Returns an int, 0 if the matching key never gets as much.
    """
    rest, reach = 1.0, 0
    for distance in range(1, tokens):
        if rest * match >= least:
            reach = distance
        rest *= 1 - other
    return reach


def _reaching(weight, first=0):
    """Make a wrong answer: ``weight`` takes match, other, distance and tokens."""
    return lambda match, other, least, tokens: max(
        (
            distance + first
            for distance in range(1, tokens)
            if weight(match, other, distance, tokens) >= least
        ),
        default=0,
    )


def _share_by_softmax(match, other, distance, tokens):
    odds = [match / (1 - match), other / (1 - other)]
    return odds[0] / (odds[0] + (tokens - 2) * odds[1])


REACH = Exercise(
    name="geometric-5",
    title="How far a match can be",
    kind="experiment",
    minutes=12,
    lines=6,
    statement=r"""
The query is the first token of a text, and attends to all others.
One key, the match, takes the share `match`, every other key the small share `other`; the weights are not divided by their sum.
Return the largest distance of the match at which its weight is at least `least`, an int, and 0 if there is none.
Then try it: how does the distance depend on `other`, and how on the length of the text, which a softmax would divide its weights by?
""",
    hint=r"""
Move the match one token farther, and one more key takes its share before it.
""",
    cases=(
        (0.8, 0.5, 0.3, 6),
        (0.9, 0.1, 0.5, 20),
        (0.9, 0.1, 0.5, 4),
        (0.4, 0.1, 0.5, 20),
        (0.99, 0.01, 0.5, 200),
        (0.7, 0.02, 0.1, 1000),
        (0.7, 0.02, 0.2, 1000),
    ),
    solution=farthest_match,
    misconceptions=(
        Misconception(
            "One token too far",
            "At the distance t there are t − 1 keys before the match.",
            _reaching(lambda m, o, t, n: m * (1 - o) ** (t - 2)),
        ),
        Misconception(
            "One token too near",
            "At the distance t there are t − 1 keys before the match, not t.",
            _reaching(lambda m, o, t, n: m * (1 - o) ** t),
        ),
        Misconception(
            "Index in place of the distance",
            "The neighbor of the query has the distance 1.",
            _reaching(lambda m, o, t, n: m * (1 - o) ** (t - 1), first=-1),
        ),
        Misconception(
            "Keys on both sides",
            "The query is the first token: it has keys on one side only.",
            _reaching(lambda m, o, t, n: m * (1 - o) ** (2 * t - 2)),
        ),
        Misconception(
            "Match takes its share of everything",
            "The keys before the match have taken their shares.",
            _reaching(lambda m, o, t, n: m),
        ),
        Misconception(
            "Share of the match left out",
            "What is left at the match is not yet its weight.",
            _reaching(lambda m, o, t, n: (1 - o) ** (t - 1)),
        ),
        Misconception(
            "Shares subtracted",
            "Each key takes a share of what is left, not of the whole stick.",
            _reaching(lambda m, o, t, n: m * (1 - o * (t - 1))),
        ),
        Misconception(
            "Softmax",
            "Shares are sigmoids, taken in turn: the rest of the text does not matter.",
            _reaching(_share_by_softmax),
        ),
        Misconception(
            "All other keys before the match",
            "Only nearer keys take their shares before the match.",
            _reaching(lambda m, o, t, n: m * (1 - o) ** (n - 2)),
        ),
        Misconception(
            "Text has no end",
            "The match is one of the text's tokens: its distance is at most tokens − 1.",
            lambda match, other, least, tokens: farthest_match(
                match, other, least, 10_000
            ),
        ),
        Misconception(
            "First distance at which it fails",
            "The last distance at which the match still gets enough is asked for.",
            lambda match, other, least, tokens: (
                farthest_match(match, other, least, tokens) + 1
            ),
        ),
        Misconception(
            "Half-life of the stick",
            "The weight is compared with least, and starts at match.",
            lambda match, other, least, tokens: int(np.log(0.5) / np.log(1 - other)),
        ),
    ),
    properties=(
        Property(
            "A longer text does not bring the match nearer",
            lambda answer, match, other, least, tokens: (
                answer(match, other, least, 2 * tokens)
                >= answer(match, other, least, tokens)
            ),
        ),
    ),
    explanation=r"""
At the distance $t$ the match gets $\text{match} \cdot (1 - \text{other})^{t - 1}$, so $t - 1$ is at most $\log(\text{least}/\text{match}) / \log(1 - \text{other})$: about in inverse proportion to `other`.
The length of the text has no part in it, unlike in a softmax, where every further key takes some weight: {prf:ref}`farther keys get what is left <def-geometric-box>`.
So a model must learn shares near 0 for what does not match; then the order is what counts and the distance hardly.
""",
    prediction=Prediction(
        "A match takes the share 0.99 and all other keys take 0.01. Up to which distance does it get half of the weight, in a text that is long enough?",
        lambda: farthest_match(0.99, 0.01, 0.5, 10_000),
        near=0.15,
    ),
)


# geometric-6: rows without keys


def normalized(weights):
    """Divide each row of weights by its sum.

    ``weights``, [queries, keys], are not negative. The
    result has no NaN.
    """
    total = weights.sum(-1, keepdim=True)
    return weights / total.clamp(min=1e-12)


def _broken_normalized(weights):
    """Divide each row of weights by its sum.

    ``weights``, [queries, keys], are not negative. The
    result has no NaN.
    """
    total = weights.sum(-1, keepdim=True)
    return weights / total


def symptom_of_rows(function):
    """Return how many outputs of a causal head are NaN."""
    shares = torch.full((4, 4), 0.5).tril(-1)
    weights = shares**2
    values = torch.eye(4)
    out = function(weights) @ values
    return out.isnan().sum().item()


ROWS = Exercise(
    name="geometric-6",
    title="Repair: a query without keys",
    kind="repair",
    minutes=8,
    lines=1,
    statement=r"""
A head of geometric attention gets a causal mask, and from the first step of training the loss is NaN.
Repair `normalized`, so that `symptom_of_rows` gives 0: divide by the sum of a row, or by $10^{-12}$ if that is larger, as the authors' code does.
Which query has no key, and why does the mistake not show with a softmax?
""",
    hint=r"""
What is the sum of the first row?
`clamp(min=…)` takes the larger of two numbers.
""",
    cases=(
        (torch.tensor([[0.0, 0.0], [0.5, 0.0]]).double(),),
        (torch.tensor(np.abs(draw(3, 4))).tril(-1),),
        (torch.tensor([[1e-13, 3e-13], [1e-11, 0.0], [0.2, 0.1]]).double(),),
        (torch.tensor(np.abs(draw(2, 5))),),
    ),
    solution=normalized,
    tolerance=1e-9,
    misconceptions=(
        Misconception(
            "Divided by 0",
            "The code is as it was: the first row sums to 0, and 0/0 is NaN.",
            _broken_normalized,
        ),
        Misconception(
            "Floor added to the sum",
            "The larger of the two is asked for: a sum adds the floor to every row.",
            lambda weights: weights / (weights.sum(-1, keepdim=True) + 1e-12),
        ),
        Misconception(
            "NaN replaced",
            "Sums below 10⁻¹² are to be replaced, too, not only those of 0.",
            lambda weights: (weights / weights.sum(-1, keepdim=True)).nan_to_num(0.0),
        ),
        Misconception(
            "Rows without keys made uniform",
            "A query without keys attends to nothing: its weights stay 0.",
            lambda weights: torch.where(
                weights.sum(-1, keepdim=True) > 0,
                normalized(weights),
                torch.ones_like(weights) / weights.shape[-1],
            ),
        ),
        Misconception(
            "Own key in place of no key",
            "A query without keys attends to nothing, not to itself.",
            lambda weights: normalized(
                weights
                + torch.eye(*weights.shape).double()
                * (weights.sum(-1, keepdim=True) == 0)
            ),
        ),
        Misconception(
            "Sum over the queries",
            "The weights of one query are a row.",
            lambda weights: weights / weights.sum(0, keepdim=True).clamp(min=1e-12),
        ),
        Misconception(
            "Sum of the whole matrix",
            "Each row has its own sum.",
            lambda weights: weights / weights.sum().clamp(min=1e-12),
        ),
        Misconception(
            "Largest weight in place of the sum",
            "Divide by the sum.",
            lambda weights: weights / weights.amax(-1, keepdim=True).clamp(min=1e-12),
        ),
        Misconception(
            "Length in place of the sum",
            "The sum of the weights themselves, not the root of that of their squares.",
            lambda weights: (
                weights / weights.norm(dim=-1, keepdim=True).clamp(min=1e-12)
            ),
        ),
        Misconception(
            "Floor too high",
            "The floor is 10⁻¹².",
            lambda weights: weights / weights.sum(-1, keepdim=True).clamp(min=1e-9),
        ),
        Misconception(
            "At least 1",
            "Sums below 1 are what is to be divided by.",
            lambda weights: weights / weights.sum(-1, keepdim=True).clamp(min=1),
        ),
        Misconception(
            "Softmax of the weights",
            "Divide by the sum.",
            lambda weights: weights.softmax(-1),
        ),
    ),
    level="optional",
    explanation=r"""
The first query sees no key before it and skips its own: its row of {prf:ref}`the masked weights <thm-geometric-causal>` is 0, and 0/0 is NaN.
A softmax has the query's own key, so that no row is empty.
With the floor such a row stays 0, and rows with sums below $10^{-12}$ do not sum to 1.
""",
    repair=Repair(_broken_normalized, symptom_of_rows),
)


SHEET = Sheet(
    title="Geometric attention",
    conventions=r"""
$i$ is the query and $j$ a key on either side of it, counted from 0.
$\beta_{ij} = \sigma(z_{ij})$ is the share that key $j$ takes of what nearer keys leave, and $A_{ij}$ its weight.
""",
    example=r"""
from posedu.numpy.stickbreaking import break_nearest_first

every = np.ones((4, 4), dtype=bool)
z = np.zeros((4, 4))  # all shares are one half
print(break_nearest_first(z, every, normalize=False))
""",
    figure="geometric_explorable",
    exercises=(EQUAL, ROW, TIE, CAUSAL, REACH, ROWS),
)
