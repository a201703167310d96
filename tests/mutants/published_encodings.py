"""Wrong versions that were published, kept as code: each must fail a property.

Sources are issues of public repositories, lecture notes, and the papers' own slips.
"""

import numpy as np
import scipy.linalg
import torch

from posedu.numpy import rotary
from posedu.numpy.frequencies import frequencies


def _interleave(sines, cosines):
    return np.stack((sines, cosines), -1).reshape(*sines.shape[:-1], -1)


def _table(positions, omega):
    angle = np.asarray(positions, dtype=float)[..., None] * omega
    return _interleave(np.sin(angle), np.cos(angle))


# Sinusoidal: table(positions, d) → [tokens, d], interleaved.


def exponent_doubled(positions, d):
    """The exponent 2δ/d with δ = 2p the feature, so that every ω is squared."""
    return _table(positions, 10000.0 ** (-4 * np.arange(d // 2) / d))


def missing_minus(positions, d):
    """labml PR #193: the exponent without its sign, so that pairs get faster."""
    return _table(positions, 10000.0 ** (2 * np.arange(d // 2) / d))


def divided_by_inverse(positions, d):
    """annotated-transformer #131: the position divided by an inverted term."""
    div_term = np.exp(-np.log(10000.0) * 2 * np.arange(d // 2) / d)
    angle = np.asarray(positions, dtype=float)[..., None] / div_term
    return _interleave(np.sin(angle), np.cos(angle))


def members_differ(positions, d):
    """The exponent δ/d for each feature δ: sine and cosine are no pair any more."""
    angle = np.asarray(positions)[..., None] * 10000.0 ** (-np.arange(d) / d)
    return _interleave(np.sin(angle[..., 0::2]), np.cos(angle[..., 1::2]))


def raw_channel(positions, d):
    """Kyubyong/transformer #38, lecture notes: 2δ/d for each feature δ, both slips."""
    angle = np.asarray(positions)[..., None] * 10000.0 ** (-2 * np.arange(d) / d)
    return _interleave(np.sin(angle[..., 0::2]), np.cos(angle[..., 1::2]))


def parity_of_position(positions, d):
    """Posts that say "even and odd positions" where they mean features."""
    positions = np.asarray(positions)
    angle = positions[..., None] * frequencies(d).repeat(2)
    return np.where((positions % 2 == 0)[..., None], np.sin(angle), np.cos(angle))


def clipped_table(positions, d, length=512):
    """Lecture notes: beyond the trained length there are no embeddings."""
    return _table(np.clip(positions, 0, length - 1), frequencies(d))


SINUSOIDAL = (
    exponent_doubled,
    missing_minus,
    divided_by_inverse,
    members_differ,
    raw_channel,
    parity_of_position,
    clipped_table,
)


def shifted_by_sine(pe):
    """Lecture slides: PE(i + k) = sin(PE(i))."""
    return np.sin(pe)


def wavelengths_from_two(d):
    """Lecture notes: wavelengths from 2 to 10000 · 2π."""
    return np.geomspace(2, 10000 * 2 * np.pi, d // 2)


# Printed on lecture slides as PE(0 … 3) for d = 4, a row a feature.
SLIDES = np.array(
    [
        [0.000, 0.841, 0.909, 0.141],
        [1.000, 0.540, -0.416, -0.990],
        [0.000, 0.388, 0.715, 0.930],
        [1.000, 0.922, 0.699, 0.368],
    ]
)


# RoPE: f(x, positions) → x rotated, interleaved unless the name says otherwise.


def _turn(x, angle):
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = np.cos(angle), np.sin(angle)
    return _interleave(a * cos - b * sin, a * sin + b * cos)


def tables_mixed(x, positions):
    """The table is doubled for one layout, the features are swapped for the other."""
    angle = np.asarray(positions)[:, None] * frequencies(x.shape[-1])
    cos, sin = (np.concatenate((t, t), -1) for t in (np.cos(angle), np.sin(angle)))
    return x * cos + _interleave(-x[..., 1::2], x[..., 0::2]) * sin


def index_from_zero(x, positions):
    """Lecture notes: ω_p = base^(−2(p−1)/d), which is for p from 1, with p from 0."""
    d = x.shape[-1]
    omega = 10000.0 ** (-2 * (np.arange(d // 2) - 1) / d)
    return _turn(x, np.asarray(positions)[:, None] * omega)


def rotated_backwards(x, positions):
    """A blog post: the dense matrix rotates by −angle, the other form by +angle."""
    return rotary.rope(x, -np.asarray(positions), layout="interleaved")


def index_is_distance(x, positions):
    """Lecture notes: "θ_i = 10000^(−2(i−1)/d), where i is the distance"."""
    d = x.shape[-1]
    omega = 10000.0 ** (-2 * np.asarray(positions, dtype=float)[:, None] / d)
    return _turn(x, np.asarray(positions)[:, None] * omega + np.zeros(d // 2))


def reflected(x, positions):
    """A sign slip in the second member: orthogonal, but a reflection."""
    angle = np.asarray(positions)[:, None] * frequencies(x.shape[-1])
    a, b = x[..., 0::2], x[..., 1::2]
    cos, sin = np.cos(angle), np.sin(angle)
    return _interleave(a * cos + b * sin, a * sin - b * cos)


def exponent_over_d(x, positions, rotary_dim):
    """Partial rotary with the frequencies of all d features, cut off: p-RoPE's."""
    r = rotary_dim
    omega = frequencies(x.shape[-1])[: r // 2]
    turned = _turn(x[..., :r], np.asarray(positions)[:, None] * omega)
    return np.concatenate((turned, x[..., r:]), -1)


ROPE = (
    tables_mixed,
    index_from_zero,
    rotated_backwards,
    index_is_distance,
    reflected,
)


# Scores: scores(q, k, positions) → [queries, keys].


def by_difference(q, k, positions):
    """Lecture slides: "m is the position difference": both turn by i − j."""
    positions = np.asarray(positions)
    scores = np.empty((len(q), len(k)))
    for i, query in enumerate(q):
        offset = np.full(len(k), positions[i] - positions)
        queries = rotary.rope(np.tile(query, (len(k), 1)), offset, layout="half")
        scores[i] = (queries * rotary.rope(k, offset, layout="half")).sum(-1)
    return scores


def keys_only(q, k, positions):
    """Lecture notes: the rotation multiplies "key and value", not query and key."""
    return q @ rotary.rope(k, positions, layout="half").T


def layouts_mixed(q, k, positions):
    """Queries turned in one layout, keys in the other."""
    q = rotary.rope(q, positions, layout="interleaved")
    return q @ rotary.rope(k, positions, layout="half").T


def one_direction_each(q, k, positions):
    """Queries turned by +angle, keys by −angle: the scores see i + j."""
    q = rotary.rope(q, positions, layout="half")
    return q @ rotary.rope(k, -np.asarray(positions), layout="half").T


def gain_after_rotation(q, k, positions):
    """GRAPE-M's code: a gain for each feature, multiplied after the rotation."""
    gain = np.linspace(0.5, 1.5, q.shape[-1])
    q, k = (gain * rotary.rope(t, positions, layout="half") for t in (q, k))
    return q @ k.T


def rotated_before_feature_map(q, k, positions):
    """Linear attention with φ(R q) in place of R φ(q)."""

    def phi(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    q, k = (phi(rotary.rope(t, positions, layout="half")) for t in (q, k))
    return q @ k.T


NOT_RELATIVE = (
    keys_only,
    layouts_mixed,
    one_direction_each,
    gain_after_rotation,
    rotated_before_feature_map,
)


def values_rotated(q, k, v, positions):
    """Lecture notes: v_j = R_j W_v x_j."""
    turned = [rotary.rope(t, positions, layout="half") for t in (q, k, v)]
    return turned[0] @ turned[1].T @ turned[2]


def bound_without_boundary(h, offset, d):
    """The decay bound with max |h_{p+1} − h_p| inside only, h_{d/2} = 0 forgotten."""
    steps = np.abs(np.diff(h)).max()
    return d / 2 * rotary.decay_bound(offset, d) * steps


# Precision: cosine(positions, d) → float64 array [tokens, d/2].


def positions_in_bf16(positions, d):
    """Round positions to bfloat16, as in gpt-neox #1003: integers above 256 collide."""
    rounded = torch.as_tensor(positions).to(torch.bfloat16).double().numpy()
    return np.cos(rounded[:, None] * frequencies(d))


def frequencies_in_bf16(positions, d):
    """Round frequencies to bfloat16, as a cast of the model (transformers #25681)."""
    omega = torch.as_tensor(frequencies(d)).to(torch.bfloat16).double().numpy()
    return np.cos(np.asarray(positions)[:, None] * omega)


def angles_in_float32(positions, d):
    """Compute frequencies and angles in float32, as most published code does."""
    omega = 1.0 / (10000.0 ** (torch.arange(0, d, 2, dtype=torch.float32) / d))
    angle = torch.as_tensor(positions, dtype=torch.float32)[:, None] * omega
    return angle.cos().double().numpy()


PRECISION = (positions_in_bf16, frequencies_in_bf16, angles_in_float32)


# Attention.


def mask_off_by_one(tokens):
    """A mask that excludes a query's own key, so that the first query has no key."""
    return np.tril(np.ones((tokens, tokens), dtype=bool), -1)


def bias_of_the_key(logits, c):
    """A constant for each column, mistaken for one for each row, which cancels."""
    return logits + c[None, :]


# Axial RoPE: f(x, positions) → x rotated, concatenated and interleaved, base 100.


def axes_swapped(x, positions):
    """(row, column) in place of (x, y), which a transposed square grid hides."""
    positions = np.asarray(positions)[:, ::-1]
    return rotary.axial(x, positions, order="concatenated", layout="interleaved")


def one_frequency_too_many(x, positions):
    """The paper's range of t, 0 … d/4: d/4 + 1 frequencies, the last cut off."""
    d = x.shape[-1]
    theta = 100.0 ** (-np.arange(d // 4 + 1) / (d // 4))
    f = np.kron(np.eye(2), theta[:, None])[: d // 2]
    return rotary.mixed(x, positions, frequencies=f, layout="interleaved")


def exponent_of_all_pairs(x, positions):
    """RoPE's exponents over all d features, distributed over the two axes."""
    f = frequencies(x.shape[-1], base=100)[:, None] * np.ones(2)
    f[len(f) // 2 :, 0] = f[: len(f) // 2, 1] = 0
    return rotary.mixed(x, positions, frequencies=f, layout="interleaved")


def axes_summed(x, positions):
    """One angle for both axes, so that positions with the same x + y are equal."""
    total = np.asarray(positions).sum(-1)
    return rotary.rope(x, total, layout="interleaved", base=100)


def index_in_row_order(x, positions, width=5):
    """The patch's number in the sequence, as for text: the next row is far away."""
    positions = np.asarray(positions)
    number = positions[:, 0] + width * positions[:, 1]
    return rotary.rope(x, number, layout="interleaved", base=100)


AXIAL = (
    axes_swapped,
    one_frequency_too_many,
    exponent_of_all_pairs,
    axes_summed,
    index_in_row_order,
)


# Matrix exponentials: rotation(x, generators) → R(x), one block.


def _expm(a):
    return scipy.linalg.expm(a)


def generator_not_skew(x, generators):
    """U + Uᵀ, or any free matrix, in place of A = U − Uᵀ."""
    return _expm(np.tensordot(x, np.abs(generators), 1))


def upper_half_only(x, generators):
    """U itself, without the − Uᵀ."""
    return _expm(np.tensordot(x, np.triu(generators), 1))


def exponential_of_each_entry(x, generators):
    """``np.exp`` in place of a matrix exponential."""
    return np.exp(np.tensordot(x, generators, 1))


def truncated_series(x, generators):
    """I + A, the exponential's first two terms."""
    return np.eye(generators.shape[-1]) + np.tensordot(x, generators, 1)


def product_of_exponentials(x, generators):
    """exp(x A) exp(y B): another rotation, unless A and B commute."""
    out = np.eye(generators.shape[-1])
    for t, a in zip(x, generators, strict=True):
        out = out @ _expm(t * a)
    return out


def transposed_generator(x, generators):
    """Uᵀ − U: all rotations in the opposite sense, which are relative, too."""
    return _expm(-np.tensordot(x, generators, 1))


EXPONENTIALS = (
    generator_not_skew,
    upper_half_only,
    exponential_of_each_entry,
    truncated_series,
    product_of_exponentials,
    transposed_generator,
)


def commutator_quartered(x, y, a, b):
    """The ComRoPE paper's appendix: the first term of e^{−xA}e^{yB} − e^{yB−xA}, /4."""
    return -x * y * (a @ b - b @ a) / 4


def rotation_for_its_generator(theta):
    """ComRoPE's Eq. 33: P_j a rotation matrix, so that P − Pᵀ = 2 sin θ J."""
    return np.array([[np.cos(theta), -np.sin(theta)], [np.sin(theta), np.cos(theta)]])


# FoPE.


def toeplitz_by_the_paper(q, k, positions, **series):
    """FoPE's code in place of its formula: the series of each token, not the offset."""
    q, k = (rotary.fope(t, positions, **series) for t in (q, k))
    return q @ k.T


def relative_where_nothing_is_mixed(c, s):
    """The first edition of this book: FoPE on tokens has one wave a pair."""
    return not any((m - np.diag(np.diag(m))).any() for m in (c, s))


def frequencies_up_to_the_floor(d, length):
    """The slow half of the frequencies in place of the fast half."""
    omega = frequencies(d)
    return omega[omega < 2 * np.pi / length]


def alibi_slopes_reversed(heads):
    """Slopes in reverse order, so that the first head is the flattest."""
    return 2.0 ** (-8 * np.arange(heads, 0, -1) / heads)


def alibi_slopes_by_the_nth_root(heads):
    """A note's "2^(−8/n) for the n-th head": same ends, not geometric."""
    return 2.0 ** (-8 / np.arange(1, heads + 1))


# Biases of distance: bias(offsets) → the same shape, or one more axis in front.


def kerple_of_nemo(t, slope=1.0):
    """NeMo's copy: the number inside the logarithm is 0 and is not trained."""
    kerple_a = np.zeros_like(t, dtype=float)
    return -slope * np.log(1 + kerple_a * np.abs(t))


def kerple_inside_the_root(t, r1, r2, d):
    """Notes that print Eq. 1 and run the code: r1 is divided by √d."""
    return -r1 * np.log(1 + r2 * np.abs(t)) / np.sqrt(d)


def bam_of_the_readme(i, j, alpha, beta, mu):
    """BAM's README: i − j in its formula, where its code has j − i."""
    return -alpha * (np.abs((i - j) - mu) + 1e-5) ** beta


def bam_start_of_the_readme(heads):
    """The factors of BAM's README: e to the slopes, since no logarithm is taken."""
    return np.exp(2.0 ** (-8 * np.arange(1, heads + 1) / heads))


def bam_with_alpha_inside(t, alpha, beta):
    """BAM's code of May 2025 (commit 5a6579d): the factor inside the power."""
    return -((alpha * np.abs(t) + 1e-5) ** beta)


def sandwich_without_cosines(t, width=128):
    """A copy of Sandwich that sums the angles: a line, as ALiBi."""
    k = np.arange(1, width // 2 + 1)
    return np.abs(np.asarray(t)[..., None] * 10000.0 ** (-2 * k / width)).sum(-1)


def sandwich_of_lecture_notes(t, r1=1.0, r2=64, width=32):
    """r1 Σ_{k=1}^{r2} cos(t / 10000^(k/d′)) with a d′ that is not r2."""
    k = np.arange(1, r2 + 1)
    return r1 * np.cos(np.asarray(t)[..., None] * 10000.0 ** (-k / width)).sum(-1)


def t5_bucket_of_the_kerple_paper(n, single=16, distance=128):
    """T5's bucket as KERPLE's paper describes it: the logarithm without + 16."""
    n = np.asarray(n, dtype=float)
    far = np.log(np.maximum(n, 1) / single) / np.log(distance / single) * single
    return np.where(n < single, n, np.minimum(np.floor(far), 2 * single - 1))


# Shaw: rows(tokens, k) → the row of each query and key.


def clipped_reach(tokens, k):
    """Lecture notes' A_ij = P_clip(k − 1, k): k − 1 for every pair."""
    return np.full((tokens, tokens), 2 * k - 1)


def turned_offset(tokens, k):
    """Rows of i − j where the table is of j − i: past and future exchanged."""
    i = np.arange(tokens)
    return np.clip(i[:, None] - i, -k, k) + k


def wrapped_rows(tokens, k):
    """Clipping left out: a negative index reads the table from its end."""
    i = np.arange(tokens)
    return (i - i[:, None] + k) % (2 * k + 1)


SHAW_ROWS = (clipped_reach, turned_offset, wrapped_rows)


# Music Transformer: skew(products) → by key.


def padded_on_the_right(products):
    """The column of zeros at the end, although the first row is dropped."""
    n = len(products)
    padded = np.concatenate((products, np.zeros((n, 1))), 1)
    return padded.reshape(n + 1, n)[1:]


def last_row_dropped(products):
    """The column of zeros in front, and the last row dropped instead of the first."""
    n = len(products)
    padded = np.concatenate((np.zeros((n, 1)), products), 1)
    return padded.reshape(n + 1, n)[:-1]


def nearest_first(products):
    """A table that begins with distance 0, skewed like one that ends with it."""
    n = len(products)
    padded = np.concatenate((np.zeros((n, 1)), products[:, ::-1]), 1)
    return padded.reshape(n + 1, n)[1:]


SKEWS = (padded_on_the_right, last_row_dropped, nearest_first)
# Logits of one head: (q, k, r, w_r, u, v) → [queries, keys]; r is [distances, d_model]
# from the largest down, as Transformer-XL's code has it.


def as_many_keys_and_a_matrix(q, k, r, w_r, u, v):
    """Notes: "K plus a matrix", (q · (k + W r)), without u and v."""
    return q @ k.T + _shifted(q @ (r @ w_r.T).T)


def without_the_shift(q, k, r, w_r, u, v):
    """Notes: softmax((QKᵀ + QRᵀ + uKᵀ + vRᵀ)/√d), where a column is a distance."""
    return (q + u) @ k.T + (q + v) @ (r @ w_r.T).T


def without_the_projection(q, k, r, w_r, u, v):
    """The same notes: R itself, not W_R R."""
    return (q + u) @ k.T + _shifted((q + v) @ r[:, : q.shape[1]].T)


def distance_from_the_key(q, k, r, w_r, u, v):
    """r of j − i in place of i − j, which flips the sign of sines."""
    half = r.shape[1] // 2
    turned = np.concatenate((-r[:, :half], r[:, half:]), axis=1)
    return (q + u) @ k.T + _shifted((q + v) @ (turned @ w_r.T).T)


def u_projected(q, k, r, w_r, u, v):
    """Slides: uᵀ W_qᵀ, as if u were a query's input; W_R stands for any matrix."""
    return (q + u @ w_r[:, : len(u)].T) @ k.T + _shifted((q + v) @ (r @ w_r.T).T)


def _shifted(by_distance):
    """The authors' shift: pad on the left, read in other rows, drop the first."""
    queries, keys = by_distance.shape
    padded = np.pad(by_distance, ((0, 0), (1, 0)))
    return padded.reshape(keys + 1, queries)[1:].reshape(queries, keys)


TRANSFORMER_XL = (
    as_many_keys_and_a_matrix,
    without_the_shift,
    without_the_projection,
    distance_from_the_key,
    u_projected,
)


# DeBERTa: rows of offsets, and what both terms are divided by.


def clipped_on_both_sides_alike(offsets, span):
    """Notes: clip(i − j, −k, k) + k, which has 2k + 1 values for 2k rows."""
    return np.clip(offsets, -span, span) + span


def clipped_at_a_constant(offsets, span):
    """A note's clip(k − 1, k): the same row for every offset."""
    return np.full_like(offsets, np.clip(span - 1, -span, span))


# Learned biases.


def fire_with_offset_in_the_normalizer(offsets, queries, c, threshold):
    """Notes that divide by ψ(i − j) of the farthest key seen so far, max(L, i − j)."""
    psi = lambda t: np.log1p(np.abs(c * t))  # noqa: E731
    return psi(offsets) / psi(np.maximum(threshold, offsets))


def fire_without_logarithm(offsets, queries, c, threshold):
    """Distances over max(L, i): positions are interpolated without ψ."""
    return offsets / np.maximum(threshold, queries)


def dape_v2_of_the_authors(read, w_1, b_1, w_2, b_2, masked=True):
    """chuanyang-Zheng/DAPE: both convolutions end, with zeros, at the last key.

    What a token is told then depends on whether another follows. With ``masked`` false
    the input is not cut off at the query: a leak, which the authors mend by ``tril``.
    """
    read = torch.tril(read) if masked else read
    reach = w_1.shape[-1] // 2
    conv = torch.nn.functional.conv2d
    z = conv(read, w_1[:, :, None], b_1, padding=(0, reach))
    hidden = torch.nn.functional.leaky_relu(z)
    return conv(hidden, w_2[:, :, None], b_2, padding=(0, reach))


# FLOATER: slope(τ, d) → dp/dτ of the sinusoid; step(h, t, p, step) → p a step later.


def slope_of_the_floater_paper(tau, d, base=10000.0):
    """Eq. 9 of arXiv 2003.09229: the slope of sin(τ c^(j/d)) with c^(−j/d) in front."""
    omega = base ** (-2 * np.arange(d // 2) / d)
    return np.stack((np.cos(omega * tau) / omega, -np.sin(omega * tau) / omega), -1)


def step_that_reads_the_time_once(h, t, p, step):
    """All four stages at the time of the first, correct if h ignores the time."""
    a = h(t, p)
    b = h(t, p + step / 2 * a)
    c = h(t, p + step / 2 * b)
    return p + step / 6 * (a + 2 * b + 2 * c + h(t, p + step * c))


def step_with_equal_weights(h, t, p, step):
    """The plain mean of the four slopes."""
    a = h(t, p)
    b = h(t + step / 2, p + step / 2 * a)
    c = h(t + step / 2, p + step / 2 * b)
    return p + step / 4 * (a + b + c + h(t + step, p + step * c))


FLOATER_STEPS = (step_that_reads_the_time_once, step_with_equal_weights)
# NTK-aware scaling: bases published in place of b·s^{d/(d − 2)}.


def ntk_with_the_factor(d, base, factor):
    """The base times the factor itself."""
    return (base * factor) ** (-2 * np.arange(d // 2) / d)


def ntk_without_two(d, base, factor):
    """The exponent d/(d + 2)."""
    return (base * factor ** (d / (d + 2))) ** (-2 * np.arange(d // 2) / d)


# Log-n temperature: the step comes one token late.


def log_n_steps(positions, alpha, length):
    """1 + α ln(1 + ⌊i/L⌋), where Llama 4 has i + 1."""
    return 1 + alpha * np.log(1 + np.floor(positions / length))


# PoPE: scores, times √d, of one head at positions 0, 1, …


def _pope(q, k, query_phase, key_phase, omega, length):
    angles = np.arange(len(q))[:, None] * omega
    a, b = (
        length(q) * np.exp(1j * (angles + query_phase)),
        length(k) * np.exp(1j * (angles + key_phase)),
    )
    return (a @ b.conj().T).real


def _softplus(x):
    return np.logaddexp(0.0, x)


def pope_without_softplus(q, k, delta):
    """Magnitudes may be negative, which rotates a feature by half a turn."""
    omega = 10000.0 ** (-np.arange(len(delta)) / len(delta))
    return _pope(q, k, 0, delta, omega, lambda x: x)


def pope_in_pairs(q, k, delta):
    """RoPE's row of frequencies, two features to each."""
    omega = 10000.0 ** (-2 * (np.arange(len(delta)) // 2) / len(delta))
    return _pope(q, k, 0, delta, omega, _softplus)


def pope_with_the_phase_added(q, k, delta):
    """The phase is added to the query's angle and not subtracted."""
    omega = 10000.0 ** (-np.arange(len(delta)) / len(delta))
    return _pope(q, k, delta, 0, omega, _softplus)


# xPos: queries and keys of one head, positions, d → rotated ones, interleaved.


def _interleaved(x, angle):
    a, b = x[..., ::2], x[..., 1::2]
    cos, sin = np.cos(angle), np.sin(angle)
    return _interleave(a * cos - b * sin, a * sin + b * cos)


def _xpos(q, k, positions, power, key_power=None):
    d = q.shape[-1]
    angle = positions[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)
    own = 1 / power if key_power is None else key_power
    return _interleaved(q, angle) * power, _interleaved(k, angle) * own


def _xpos_power(positions, d):
    zeta = (np.arange(0, d, 2) / d + 0.4) / 1.4
    return zeta ** (positions[:, None] / 512)


def xpos_scales_in_halves(q, k, positions):
    """rotary-embedding-torch before #34: pairs interleaved, their scales in halves."""
    power = _xpos_power(positions, q.shape[-1])
    return _xpos(q, k, positions, np.concatenate((power, power), -1))


def xpos_keys_shrink_too(q, k, positions):
    """One factor for both, as for a rotation."""
    power = np.repeat(_xpos_power(positions, q.shape[-1]), 2, -1)
    return _xpos(q, k, positions, power, power)


def xpos_center_of_each(q, k, positions):
    """Queries centered at their middle, keys at 0."""
    power = np.repeat(_xpos_power(positions, q.shape[-1]), 2, -1)
    middle = np.repeat(_xpos_power(positions - positions.mean(), q.shape[-1]), 2, -1)
    return _xpos(q, k, positions, middle, 1 / power)


# Rotated values: out(weights, v, positions, turn) with turn(x, positions) = RoPE.


def values_not_turned_back(weights, v, positions, turn):
    """AMD-AGI/Primus as #928 found it: no rotation before the output projection."""
    return weights @ turn(v, positions)


def values_turned_on(weights, v, positions, turn):
    """The output rotated as the queries are, not backwards."""
    return turn(weights @ turn(v, positions), positions)


def values_turned_back_by_keys(weights, v, positions, turn):
    """Values rotated back before the sum, by the key's position."""
    return weights @ turn(turn(v, positions), -positions)


# GTA: hooks(matrices [tokens, d, d]) → factors of q, of k and v, of the output.


def gta_transposed_for_inverse(matrices):
    """The transpose in place of the inverse, correct for rotations alone."""
    back = matrices.swapaxes(-1, -2)
    return back, back, matrices


def gta_queries_as_keys(matrices):
    """One map for queries and keys, as in RoPE."""
    back = np.linalg.inv(matrices)
    return back, back, matrices


def gta_camera_to_world(matrices):
    """The inverse poses, from the camera to the world."""
    back = np.linalg.inv(matrices)
    return back.swapaxes(-1, -2), matrices, back


# Fourier features: features(positions, b) → [tokens, 2 pairs], sines first.


def without_two_pi(positions, b):
    """JHLew/Learnable-Fourier-Features, FourierFeatures: no 2π in the angle."""
    angle = positions @ b.T
    return np.concatenate((np.sin(angle), np.cos(angle)), -1)


def deviations(gamma):
    """Initial deviations of learned frequencies, paper first, then two ports of it."""
    return 1 / gamma, gamma**2, gamma**-2


# NeRF's encoding: code(positions, octaves) → [tokens, 2 octaves], one axis, with π.


def _waves(positions, frequencies):
    angle = np.pi * np.multiply.outer(positions, frequencies)
    return np.concatenate((np.sin(angle), np.cos(angle)), -1)


def nerf_without_pi(positions, octaves):
    """bmild/nerf, Embedder.embed, where Eq. 4 of the paper has π."""
    return _waves(positions, 2.0 ** np.arange(octaves) / np.pi)


def nerf_evenly_spaced(positions, octaves):
    """bmild/nerf with ``log_sampling=False``: evenly from 1 to 2^(L − 1)."""
    return _waves(positions, np.linspace(1, 2.0 ** (octaves - 1), octaves))


def nerf_from_one(positions, octaves):
    """Octaves counted from 1."""
    return _waves(positions, 2.0 ** np.arange(1, octaves + 1))


def nerf_in_turns(positions, octaves):
    """The 2π of Fourier features in place of π."""
    return _waves(positions, 2 * 2.0 ** np.arange(octaves))


def nerf_sines_twice(positions, octaves):
    """Sines in place of cosines."""
    sines = _waves(positions, 2.0 ** np.arange(octaves))[..., :octaves]
    return np.concatenate((sines, sines), -1)


NERF = (
    nerf_without_pi,
    nerf_evenly_spaced,
    nerf_from_one,
    nerf_in_turns,
    nerf_sines_twice,
)


# Integrated encoding: code(mean, deviation, frequencies) → [tokens, 2 octaves].


def _damped(mean, frequencies, exponent):
    angle = np.multiply.outer(mean, frequencies)
    damping = np.exp(-exponent)
    return np.concatenate((damping * np.sin(angle), damping * np.cos(angle)), -1)


def integrated_by_deviation(mean, deviation, frequencies):
    """The deviation where the formula has the variance."""
    spread = np.multiply.outer(deviation, frequencies**2)
    return _damped(mean, frequencies, spread / 2)


def integrated_without_square(mean, deviation, frequencies):
    """2^ℓ in place of 4^ℓ: the variance is not scaled with the square."""
    spread = np.multiply.outer(deviation**2, frequencies)
    return _damped(mean, frequencies, spread / 2)


def integrated_without_half(mean, deviation, frequencies):
    """The exponent without ½."""
    return _damped(mean, frequencies, np.multiply.outer(deviation, frequencies) ** 2)


def integrated_of_turns(mean, deviation, frequencies):
    """Tancik's exponent, 2π² σ², of frequencies that count full turns."""
    spread = np.multiply.outer(deviation, frequencies)
    return _damped(mean, frequencies, 2 * np.pi**2 * spread**2)


INTEGRATED = (
    integrated_by_deviation,
    integrated_without_square,
    integrated_without_half,
    integrated_of_turns,
)


# A piece of a cone: moments(near, far, radius) → mean, variance along, across.


def cone_by_powers(near, far, radius):
    """google/mipnerf, conical_frustum_to_gaussian with ``stable=False``."""
    volume = far**3 - near**3
    mean = 3 * (far**4 - near**4) / (4 * volume)
    square = near.dtype.type(3 / 5) * (far**5 - near**5) / volume
    return mean, square - mean**2, radius**2 * square / 4


def cone_of_sums(near, far, radius):
    """A summary of the paper, with t_δ = (t₁ + t₀)/2 in place of (t₁ − t₀)/2."""
    mid = half = (near + far) / 2
    size = 3 * mid**2 + half**2
    return (
        mid + 2 * mid * half**2 / size,
        half**2 / 3 - 4 / 15 * half**4 * (12 * mid**2 - half**2) / size**2,
        radius**2 * (mid**2 / 4 + 5 / 12 * half**2 - 4 / 15 * half**4 / size),
    )


# Hash grid: rows(vertices, table_size) → [tokens], for two axes.

PRIME = 2_654_435_761


def hashed_in_float32(vertices, table_size):
    """Products of floats: their low digits, which alone count, are rounded away."""
    x, y = vertices.T
    product = y.astype(np.float32) * np.float32(PRIME)
    return (x ^ product.astype(np.int64)) % table_size


def hashed_with_remainder(vertices, table_size):
    """int32 and C's remainder, which has the sign of the hash."""
    x, y = vertices.astype(np.int32).T
    mixed = x ^ (y * np.uint32(PRIME).astype(np.int32))
    return np.fmod(mixed, np.int32(table_size)).astype(np.int64)


def hashed_by_sum(vertices, table_size):
    """A sum in place of the exclusive or."""
    x, y = vertices.T
    return (x + y * PRIME) % table_size


def hashed_by_even_factor(vertices, table_size):
    """A factor that is no odd number: columns collide."""
    x, y = vertices.T
    return (x ^ (y * (PRIME - 1))) % table_size


HASHES = (
    hashed_in_float32,
    hashed_with_remainder,
    hashed_by_sum,
    hashed_by_even_factor,
)


# Learned absolute embeddings: rows(table, positions) → [tokens, d].


def wrapping(table, positions):
    """Plain indexing in NumPy: position −1 gets the last row, silently."""
    return table[np.asarray(positions)]


def gathered_on_a_gpu(table, positions):
    """tensor2tensor's ``positions=``, by tf.gather: on a GPU, zeros out of bounds."""
    at = np.asarray(positions)
    inside = (at >= 0) & (at < len(table))
    return np.where(inside[:, None], table[np.clip(at, 0, len(table) - 1)], 0.0)


def counted_from_each_call(table, positions):
    """``table[: x.shape[1]]``: with a cache, every new token has position 0."""
    return table[: len(positions)]


def added_in_place(stream, table, age):
    """Transformer-XL, attn_type=3, segments as long as the stream: what memory holds.

    ``core_out +=`` changes what was appended to ``hids``, ``mems_i +=`` the memory.
    """
    kept = stream.copy()
    for segment in range(age + 1):
        end = len(table) - len(stream) * segment
        kept += table[end - len(stream) : end]
    return kept


def counted_from_the_end(table, positions):
    """Transformer-XL, attn_type=3: ``r_emb[-qlen:]``, so the last row is the newest."""
    return table[len(table) - len(positions) :]


# TAPE: a layer's update of blocks [tokens, heads, pairs, 2, 2] with weights.


def summed_over_queries(weights, blocks):
    """zhuconv/arithmetic, attention.py: a sum over the queries that see a token."""
    return np.einsum("hij,ihpru->jhpru", weights, blocks)


def rows_moved_apart(blocks, amounts):
    """VITA-Group/TAPE, adatensor.py: weights of their own for cosines and for sines.

    For the numbers (c, s) of a block; so the block is one of a rotation no more.
    """
    c, s = blocks[..., 0, 0], blocks[..., 1, 0]
    c, s = amounts[0] * c, amounts[1] * s
    return np.stack((np.stack((c, -s), -1), np.stack((s, c), -1)), -2)


def cape_scales(rng, most, count):
    """Uniform in 1 ± (most − 1): a notes page has it so. λ and 1/λ differ in law."""
    return rng.uniform(2 - most, most, count)


def cape_positions_of_the_activations(tokens, dtype):
    """gcambara/cape (commit d456950) casts positions to the dtype of x at once."""
    return torch.arange(tokens).to(dtype)


def cape_is_padding(tokens, length):
    """gcambara/cape (commit d456950): > in place of ≥, as positions count from 0."""
    return np.arange(tokens) > length


def sampled_with_replacement(rng, tokens, limit):
    """Sorted positions of which two tokens may share one."""
    return np.sort(rng.integers(0, limit, tokens))


def positions_from_the_left(roles):
    """Digits counted from the left of every number, as Abacus does without reversing.

    mcleish7/arithmetic (commit 55af9d5) says: integers must be reversed.
    """
    index = np.zeros(len(roles), dtype=np.int64)
    for i, role in enumerate(roles):
        index[i] = (index[i - 1] if i else 0) + 1 if role > 0 else 0
    return index


# M-RoPE: the axis of each pair, or of each feature in the half layout.


def interleaved_to_the_end(sections):
    """XPU-Forces/mojo_opset, pull request 276: 1::3 and 2::3, whatever sections say."""
    return np.arange(sum(sections)) % len(sections)


def sectioned_for_interleaved(sections):
    """Qwen2-VL's order for Qwen3-VL's sections."""
    return np.repeat(np.arange(len(sections)), sections)


def sections_of_features(sections):
    """transformers 5.23.0, hunyuan_vl: each section is doubled, not the list of them.

    So the sections lie over the features, and a pair has one feature in each half.
    """
    return np.repeat(np.arange(len(sections)), 2 * np.array(sections))


# STRING: the rotation of one position.


def circulant_sum(position, coefficients):
    """exp(Σ x_k (C_k + C_kᵀ)): symmetric generators stretch."""
    c, n = np.asarray(coefficients), np.arange(np.shape(coefficients)[-1])
    circulant = c[..., (n[:, None] - n) % len(n)]
    values, vectors = np.linalg.eigh(
        np.einsum("k,kij->ij", position, circulant + circulant.swapaxes(-1, -2))
    )
    return (vectors * np.exp(values)) @ vectors.T


def cayley_of_any(matrix):
    """(I − A)(I + A)⁻¹ of a matrix that is not skew."""
    one = np.eye(len(matrix))
    return (one - matrix) @ np.linalg.inv(one + matrix)


# Moving cached keys to other positions.


def moved_by_the_old_position(keys, old, new, turn):
    """Rotate by the new position, as if the cached key were not rotated yet."""
    return turn(keys, new)


def moved_backwards(keys, old, new, turn):
    """Move keys by the old position minus the new one."""
    return turn(keys, old - new)


def moved_with_the_attention_factor(keys, old, new, turn, attention_factor):
    """Apply the attention factor again, which the cached keys have already."""
    return attention_factor * turn(keys, new - old)


# Self-Extend: offsets of queries i and keys j (datamllab/LongLM, commit cdbbb06).


def self_extend_without_shift(i, j, window, group):
    """Groups without the shift, so that far keys get smaller offsets than near ones."""
    return np.where(i - j < window, i - j, i // group - j // group)


def self_extend_of_the_offset(i, j, window, group):
    """The offset divided, not both positions: cached keys cannot support it."""
    shift = window - window // group
    return np.where(i - j < window, i - j, (i - j) // group + shift)


def self_extend_one_late(i, j, window, group):
    """The key exactly at the window counts as near."""
    shift = window - window // group
    return np.where(i - j <= window, i - j, i // group - j // group + shift)


def self_extend_longest(trained, window, group):
    """(L − w) G + w tokens (the README), one too many where G does not divide w."""
    return (trained - window) * group + window
