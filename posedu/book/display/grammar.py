"""Grammar of displayed LaTeX equations, and search for an equation by its label."""

import functools
import re
from pathlib import Path

from lark import Lark, Tree
from lark.exceptions import UnexpectedInput

from posedu._argument_types import check_types

_GRAMMAR = r"""
display: claim ("," claim)*
?claim: statement | statement IFF statement -> equivalence
statement: sum (RELATION sum)*
sum: SIGN? product (SIGN product)*
product: (factor | THIN | TIMES | OVER)+
factor: atom tail*
?tail: "_" script -> below
     | "^" script -> above
     | "(" statement ("," statement)* ")" -> arguments
     | "[" statement ("," statement)* "]" -> entries
     | "!" -> factorial
     | "'" -> prime
script: NAME | NUMBER | TOP | TEXT | "{" SIGN "}" | SIGN
      | "{" statement ("," statement)* "}"
      | "{" sum "\\to" sum "}"
?atom: NAME | NUMBER | TEXT | FUNCTION
     | "(" statement ")" -> group
     | "(" statement ("," statement)+ ")" -> tuple
     | "{" statement "}" -> group
     | "[" sum "," sum "]" -> commutator
     | "[" sum "]_+" -> positive
     | "\\lvert" sum "\\rvert" -> modulus
     | "\\lVert" sum "\\rVert" -> norm
     | "\\lVert" sum "\\rVert_\\infty" -> row_norm
     | "\\lfloor" sum "\\rfloor" -> floor
     | "\\lceil" sum "\\rceil" -> ceiling
     | "\\langle" sum "," sum "\\rangle" -> inner
     | "\\overline" "{" sum "}" -> conjugate
     | "\\frac" "{" sum "}" "{" sum "}" -> fraction
     | "\\frac" "{" PARTIAL sum "}" "{" PARTIAL product "}" -> derivative
     | "\\sqrt" (NAME | NUMBER | "{" sum "}") -> root
     | "\\{" sum "," "\\dots" "," sum "\\}" -> integers
     | "\\begin{pmatrix}" row ("\\row" row)* "\\end{pmatrix}" -> matrix
     | "\\begin{cases}" case ("\\row" case)* "\\end{cases}" -> cases
row: cell ("\\cell" cell)*
cell: sum?
case: sum ","? "\\cell" statement ","?

FUNCTION.3: /\\(sin|cos|tan|log|ln|exp|det|diag|max|min|softmax|sum|prod|int|lim)(?![a-zA-Z])/
TEXT.3: /(?!\\mathrm\{d\} *[a-zA-Z])\\(text|operatorname|mathrm)\s*\{[^{}]*\}/
RELATION.3: /=|<|>|\\(le|ge)(?![a-zA-Z])/
IFF.3: /\\iff(?![a-zA-Z])/
PARTIAL.3: /\\partial(?![a-zA-Z])/
TIMES.3: /\\(cdot|times)(?![a-zA-Z])/
TOP.3: /\\top(?![a-zA-Z])/
THIN.3: /(\\[,;: ]|\\q?quad(?![a-zA-Z]))+/
NAME.2: /\\(hat|tilde|bar|mathbf|mathbb|mathcal) *(\{ *\\?[a-zA-Z0-9]+ *\}|\\[a-zA-Z]+|[a-zA-Z0-9])/
      | /\\(alpha|beta|gamma|delta|epsilon|varepsilon|theta|kappa|lambda|mu|nu|xi|pi|rho)(?![a-zA-Z])/
      | /\\(sigma|tau|phi|varphi|psi|omega|zeta|ell|PE|Pi|Sigma|Theta|Phi|Gamma|Delta|Lambda|Omega|infty)(?![a-zA-Z])/
      | /\\mathrm\{d\} *[a-zA-Z]/
      | /[a-zA-Z]/
NUMBER: /\d+(\.\d+)?/
OVER: "/"
SIGN: /\+|-|\\(pm|cup)(?![a-zA-Z])/
%ignore /\s+/
"""  # noqa: E501 -- a terminal of the grammar is one line
_COMMAND_END = r"(?![a-zA-Z])"
_ENDINGS = (r"\qquad", r"\quad", r"\,", r"\;", r"\ ", ".", ",")
_SIZES = r"\\([bB]igg?[lr]?|left|right|textstyle)" + _COMMAND_END


class DisplayError(ValueError):
    """Error for an equation that cannot be parsed, or whose symbols have no values."""


@check_types
def find(label: str, folder: str | Path = ".") -> str:
    """Return the LaTeX of the equation with a label, from a folder's Markdown pages.

    ``label`` is the equation's label, ``eq-…``; ``folder`` is by default the current
    one.

    Raises DisplayError if no page of the folder has the label.
    """
    ending = f"$$ ({label})"
    for page in sorted(Path(folder).glob("*.md")):
        above, found, _ = page.read_text(encoding="utf-8").partition(ending)
        if found:
            return above.rpartition("$$")[2].strip()
    raise DisplayError(f"no page in this folder displays {label}")


@check_types
@functools.cache
def parse(latex: str) -> Tree:
    """Parse LaTeX into a syntax tree.

    Raises
    ------
    DisplayError
        If the LaTeX does not follow the grammar; the message shows from where on.
    """
    text = _plain(latex)
    try:
        return _parser().parse(text)
    except UnexpectedInput as error:
        at = error.pos_in_stream or 0
        raise DisplayError(
            f"the display cannot be parsed from {text[at:]!r} on"
        ) from None


@functools.cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, start="display", parser="lalr")


def _plain(latex: str) -> str:
    """Remove alignment, bracket sizes and words after the equation from its LaTeX.

    The words are ``for``, ``where``, ``if`` or ``with`` and all that follows. Fractions
    without braces get braces, and a matrix's ``&`` and line breaks become commands of
    the grammar.
    """
    text = re.sub(r"\\hphantom\{(?:[^{}]|\{[^{}]*\})*\}|\\!|\{\}", " ", latex)
    text = re.sub(r"\\text\{ ?(for|where|if|with)\b.*", "", text, flags=re.S)
    text = re.sub(r"\\[bB]igg?([lr]) *\|", r"\\\1vert ", text)
    text = re.sub(_SIZES, " ", text)
    text = re.sub(r"(?<!\\)[:;]", ",", text)
    text = re.sub(r"\\[td]?frac *(\d) *(\d)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\[td]frac" + _COMMAND_END, r"\\frac", text)
    text = re.sub(r"\\mathrm *([a-zA-Z])", r"\\mathrm{\1}", text)
    text = re.sub(r"\\(begin|end)\{(aligned|gathered|split)\}", " ", text)
    tables = re.compile(r"(\\begin\{(pmatrix|cases)\})(.*?)(\\end\{\2\})", re.S)
    text = tables.sub(lambda found: found[1] + _cells(found[3]) + found[4], text)
    text = re.sub(r"\\\\(\[[^\]]*\])?|&", " ", text)
    return _without_end(text)


def _without_end(text: str) -> str:
    """Remove spaces, full stops and commas from the end of a display's LaTeX."""
    end = len(text)
    while end:
        sign = next((s for s in _ENDINGS if text.endswith(s, 0, end)), "")
        if not sign and not text[end - 1].isspace():
            break
        end -= len(sign) or 1
    return text[:end]


def _cells(body: str) -> str:
    r"""Replace ``&`` and line breaks in a matrix's LaTeX by commands of the grammar.

    ``body`` is the LaTeX between ``\begin{pmatrix}`` or ``\begin{cases}`` and the end;
    the commands are ``\cell`` and ``\row``.
    """
    rows = re.sub(r"\\\\(\[[^\]]*\])?", r"\\row ", body.rstrip(" ,.\n"))
    return " " + rows.replace("&", r"\cell ") + " "
