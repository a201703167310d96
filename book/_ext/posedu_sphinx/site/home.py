"""Home page: a picture of RoPE's rotation, numbers about the book, installation."""

import html
import re

import numpy as np
from docutils import nodes
from sphinx.util.docutils import SphinxDirective, SphinxRole

from posedu.book import exercises
from posedu.catalog import CATALOG
from posedu.numpy.rotary import rope_complex
from posedu_sphinx import ROOT
from posedu_sphinx.ledger.proof_ledger import store
from posedu_sphinx.markup import asset, external, link
from posedu_sphinx.navigation.contents import chapters
from posedu_sphinx.navigation.downloads import colab_link

WORDS = ["the", "dog", "that", "bit", "the", "man", "ran"]
KEY, QUERY = 1, len(WORDS) - 1
START, LAST = 24, 99  # positions of the first word: initially, at most
D = 64
PAIRS, RADII = range(0, 18, 3), range(102, 18, -14)  # of the rings, outermost first
NOTEBOOK = "notebooks/exercises/rope"


def rotated_pairs(positions):
    """Return RoPE's rotations of the pair (1, 0) at positions, as complex numbers.

    The array is ``[positions, pairs]``.
    """
    pairs = np.tile([1.0, 0.0], (len(positions), D // 2))
    return rope_complex(pairs, np.asarray(positions), layout="interleaved", base=10_000)


def hero():
    """Return the home page's picture of RoPE as HTML, with the script that moves it.

    The picture has a ring for each of six pairs of features; on each ring are dots of a
    key and a query, with an arc between them.
    """
    key, query, between = rotated_pairs([START + KEY, START + QUERY, QUERY - KEY])
    score = (query * key.conj()).real.mean()
    rings = "".join(
        _ring(p, r, key[p], between[p]) for p, r in zip(PAIRS, RADII, strict=True)
    )
    words = "".join(_word(place, word) for place, word in enumerate(WORDS[:-1]))
    status = f"Distance from “{WORDS[KEY]}” to “{WORDS[-1]}”: {QUERY - KEY}"
    styles = asset("site/home.css") + asset("site/hero.css")
    return f"""{styles}<figure class="posedu-hero">
<svg viewBox="-110 -110 220 220" role="img" aria-label="Six rings. On each an arc leads
 from the key's dot to the query's; all arcs rotate as the sentence moves, and keep
 their lengths.">
<path d="M0 0H108" class="zero"/>{rings}
<text y="-2">score</text><text class="score" y="13">{score:.3f}</text></svg>
<fieldset disabled><legend>Choose the word that “{WORDS[-1]}” looks at:</legend>{words}
<span class="query">{WORDS[-1]}<small>{START + QUERY}</small></span></fieldset>
<div class="controls" hidden><button type="button">Pause</button>
<label>Move the sentence <input type="range" min="0" max="{LAST}" value="{START}"
 autocomplete="off" aria-label="position of the sentence"></label></div>
<figcaption><span class="entry"><svg class="key" viewBox="-8 -8 16 16"
 aria-hidden="true"><circle class="key" r="5"/></svg> key, the word looked at</span>
<span class="entry"><svg viewBox="-8 -8 16 16" aria-hidden="true"><circle class="query"
 r="5.5"/></svg> query, the word that looks</span>
<span class="status" role="status">{status}</span>. Each ring is a pair of features,
 and each of the two words is a dot on it. As the sentence moves, all dots rotate and
 the arc between them keeps its length: the score depends on the distance alone.
 <small>RoPE, six of the {D // 2} pairs of a head with d = {D}; an arc's color
 only identifies its ring. Both words have the same content, so that the score is 1 at
 distance 0 and shows the effect of the distance alone.</small></figcaption>
</figure>{asset("site/hero.js")}"""


def _ring(p, r, key, between):
    """Draw a pair of features as an SVG ring: dots of key and query, an arc between.

    ``p`` is the pair's index, ``r`` the ring's radius. ``key`` is the key's rotation
    and ``between`` the rotation from key to query, as complex numbers.
    """
    angle = np.angle(between) % (2 * np.pi)
    x, y = r * between.real, -r * between.imag
    rotation = -np.degrees(np.angle(key))
    return f"""<circle r="{r}"/><g data-p="{p}" data-r="{r}"
 transform="rotate({rotation:.2f})" style="--p: {p}">
<path d="M{r} 0A{r} {r} 0 {int(angle > np.pi)} 0 {x:.2f} {y:.2f}"/>
<circle class="key" cx="{r}" r="5"/>
<circle class="query" cx="{x:.2f}" cy="{y:.2f}" r="5.5"/></g>"""


def _word(place, word):
    checked = " checked" if place == KEY else ""
    return (
        f'<label><input type="radio" name="key" value="{place}" autocomplete="off"'
        f"{checked}>{html.escape(word)}<small>{START + place}</small></label>"
    )


class Hero(SphinxDirective):
    """Directive ``{home-hero}``: the home page's interactive picture of RoPE.

    The picture has a ring for each of six pairs of features.
    """

    def run(self):
        """Return the home page's picture of RoPE as a raw HTML node."""
        return [nodes.raw("", hero(), format="html")]


class count_placeholder(nodes.Inline, nodes.Element):
    """Placeholder node for a number about the book until every page has been read."""


class Count(SphinxRole):
    """Sphinx role ``{count}`claims```: a number about the book, from :func:`counts`."""

    def run(self):
        """Return a placeholder node, which :func:`fill` replaces by the number."""
        return [count_placeholder(of=self.text)], []


def counts(env):
    """Return a dict of numbers about the book, by the name of what is counted.

    Names are chapters, claims (labeled formulas), encodings, errata, exercises,
    mistakes (misconceptions that exercises recognize) and theorems (special cases of
    encodings).
    """
    exercises = [e for page in chapters() for e in _exercises(page)]
    of_families = (
        p for p in ROOT.glob("book/*/errata*.md") if "reference" not in p.parts
    )
    errata = "".join(path.read_text(encoding="utf-8") for path in of_families)
    return {
        "chapters": len(chapters()),
        "claims": sum(len(page["claims"]) for page in store(env).values()),
        "encodings": sum(bool(e.page) for e in CATALOG.values()),
        "errata": len(set(re.findall(r"<(err-[\w-]+)>", errata))),
        "exercises": len(exercises),
        "mistakes": sum(len(e.misconceptions) for e in exercises),
        "theorems": sum(len(e.special_cases) for e in CATALOG.values()),
    }


def _exercises(page):
    return exercises.sheet(page.rpartition("/")[2]).exercises


class get_placeholder(nodes.General, nodes.Element):
    """Placeholder node for the instructions to run the book."""


class Get(SphinxDirective):
    """Directive ``{home-get}``: instructions to open a notebook and install posedu."""

    def run(self):
        """Return a placeholder node, which :func:`fill` replaces by instructions."""
        return [get_placeholder()]


def run_instructions(app, docname):
    """Return nodes with instructions to open a notebook and to install posedu.

    The notebook is opened in Colab, if the repository has an address, or locally. Links
    start from the page ``docname``.
    """
    address = app.config.html_theme_options.get("repository_url", "")
    up = "/".join([".."] * docname.count("/"))
    download = external(f"{up}/_sources/{NOTEBOOK}.ipynb", "Download a notebook")
    first = [
        download,
        nodes.Text(": it contains the package and runs in any Jupyter, "),
    ]
    first.append(nodes.Text("or in Colab after you upload it. "))
    if colab := colab_link(app.config, NOTEBOOK):
        first[:0] = [external(colab, "Open the first exercises in Colab"), _stop()]
    text = "Each chapter, lab and set of exercises has its own notebook. "
    first += [nodes.Text(text)]
    source = f"git+{address}" if address else "."
    install = nodes.literal_block("", f"pip install {source}", language="sh")
    where = "Install it" if address else "In a folder with the source, install it"
    contents = link(app, docname, "book/reference/api", "", "API reference")
    after = nodes.Text(f" lists the package and shows its code. {where}:")
    second = [nodes.Text("The "), contents, after]
    return [
        nodes.paragraph("", "", *first),
        nodes.paragraph("", "", *second),
        install,
    ]


def _stop():
    return nodes.Text(". ")


def fill(app, doctree, docname):
    """Replace the placeholders by numbers about the book and by instructions."""
    found = counts(app.env) if doctree.next_node(count_placeholder) else {}
    for placeholder in list(doctree.findall(count_placeholder)):
        placeholder.replace_self(nodes.Text(str(found[placeholder["of"]])))
    for placeholder in list(doctree.findall(get_placeholder)):
        placeholder.replace_self(run_instructions(app, docname))


def outdated(app, env):
    """Return a list with the home page's name, for Sphinx to write it again."""
    return [app.config.root_doc]


def setup(app):
    """Register the home page's directives, ``count`` role and build events."""
    for node in (count_placeholder, get_placeholder):
        app.add_node(node)
    app.add_directive("home-hero", Hero)
    app.add_directive("home-get", Get)
    app.add_role("count", Count())
    app.connect("env-updated", outdated)
    app.connect("doctree-resolved", fill)
