"""Text of a built page's elements: one sentence or cell row a line, formulas in words.

Text is what a reader sees: TeX becomes symbols, and code, results of checks, pictures
and solutions are left out.
"""

import re

REMOVED = (
    "script, style, svg, pre, button, select, input, nav, .headerlink, div.math, "
    ".solution, .posedu-links, .posedu-time, .posedu-explorable, .posedu-code, "
    ".posedu-check, .posedu-choice, .bibtex-citation, .toctree-wrapper, .sd-tab-label, "
    ".expanded, .collapsed"
)
LINES = {
    *("p", "li", "dt", "dd", "div", "section", "blockquote", "details", "summary"),
    *("figcaption", "caption", "table", "tr", "h1", "h2", "h3", "h4", "h5", "h6"),
}
CELLS = {"td", "th"}
LONG_TABLE = 40  # rows; a longer table is a list of data, not text to search
FRACTION = re.compile(r"\\[td]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
PUNCTUATION = re.compile(r" ([.,;:])(?= |$)")
COMMAND = re.compile(r"\\([A-Za-z]+)\*?")
SYMBOLS = {
    **dict(alpha="α", beta="β", gamma="γ", delta="δ", varepsilon="ε", epsilon="ε"),
    **dict(theta="θ", lambda_="λ", mu="μ", pi="π", rho="ρ", sigma="σ", tau="τ"),
    **dict(phi="φ", varphi="φ", omega="ω", Delta="Δ", Lambda="Λ", Omega="Ω"),
    **dict(Phi="Φ", Sigma="Σ", Theta="Θ", sum="Σ", prod="Π", cdot="·", times="×"),
    **dict(le="≤", ge="≥", ne="≠", approx="≈", to="→", infty="∞", sqrt="√", pm="±"),
    **dict(dots="…", cdots="…", ldots="…", top="ᵀ", odot="⊙", lVert="‖", rVert="‖"),
    **dict(log="log", ln="ln", exp="exp", cos="cos", sin="sin", max="max", min="min"),
    **dict(softmax="softmax", diag="diag", R="ℝ", PE="PE"),
    "in": "∈",
}
SYMBOLS["lambda"] = SYMBOLS.pop("lambda_")


def without_tex(text):
    r"""Return TeX as plain text: θ for ``\theta``, and no syntax of TeX.

    A command without a symbol of its own becomes a space.
    """
    text = FRACTION.sub(r" \1/\2 ", text)
    text = COMMAND.sub(lambda found: SYMBOLS.get(found[1], " "), text)
    text = re.sub(r"\\[()\[\]]", "", text)
    text = re.sub(r"\\[^A-Za-z]|&", " ", text)
    return " ".join(re.sub(r"[{}$]", "", text).split())


def remove_hidden(article):
    """Remove from a page what is not prose, such as code, pictures and long tables.

    ``article`` is the page's article, an element of lxml, which is changed.
    """
    long = [t for t in article.iter("tbody") if len(t) > LONG_TABLE]
    passed = [fold for fold in article.iter("details") if _is_of_check(fold)]
    for part in [*article.cssselect(REMOVED), *long, *passed]:
        if part.getparent() is not None:
            part.drop_tree()


def _is_of_check(fold):
    summary = fold.find("summary")
    return summary is not None and summary.text_content().lstrip().startswith("✓")


def lines(element, left_out=()):
    """Return the text of an HTML element as lines.

    A line is a sentence of the source, or a row of a table. ``element`` is an element
    of lxml; the elements in ``left_out`` and all inside them have no text.
    """
    words = "".join(_pieces(element, {*left_out}, in_row=False))
    found = (" ".join(line.split()) for line in words.split("\n"))
    plain = (PUNCTUATION.sub(r"\1", line).strip(" ·") for line in found)
    return [line for line in plain if line]


def _pieces(element, hidden, *, in_row):
    """Yield an element's text in pieces; blocks outside of tables are between newlines.

    ``hidden`` are elements without text, ``in_row`` says that ``element`` is in a row
    of a table.
    """
    if element in hidden or not isinstance(element.tag, str):
        return
    if "math" in element.get("class", "").split():
        yield without_tex(element.text_content())
        return
    within = in_row or element.tag == "tr"
    is_block = element.tag in LINES and not in_row
    if is_block:
        yield "\n"
    yield _inside(element.text, within)
    for part in element:
        yield from _pieces(part, hidden, in_row=within)
        yield _inside(part.tail, within)
    if is_block:
        yield "\n"
    elif element.tag in CELLS:
        yield " · "


def _inside(text, in_row):
    text = text or ""
    return text.replace("\n", " ") if in_row else text
