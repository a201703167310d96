"""Words of figures as text, in the font that matplotlib measured them with.

Matplotlib draws each letter as a path, since a reader's machine may lack its font. The
site serves that font, with the letters that its figures have, so that a figure looks
the same, weighs less, and its words can be searched and copied. Formulas stay paths.
"""

import html
import logging
import re
import shutil
from pathlib import Path

from fontTools import subset
from matplotlib import get_data_path

FONTS = Path(get_data_path(), "fonts", "ttf")
FAMILY = "posedu-figures,DejaVu Sans,Verdana,sans-serif"
SERVED = "_static/figures/dejavu-sans.woff"
WORDS = re.compile(
    r"<!-- (?P<words>(?:(?!-->)[^$])+?) -->\s*"
    r'<g style="(?P<style>[^"]*)" transform="translate\((?P<x>\S+) (?P<y>\S+)\)'
    r'(?P<turn>(?: rotate\(\S+\))?) scale\((?P<size>\S+) -(?P=size)\)">'
    r"(?P<letters>(?:\s*<defs>(?:(?!</defs>).)*</defs>"
    r'|\s*<use xlink:href="#DejaVuSans-[^>]*/>)+)\s*</g>',
    re.DOTALL,
)
LETTER = re.compile(r'<path id="([^"]+)".*?/>', re.DOTALL)


TEXT = re.compile(r"<text\b[^>]*>([^<]*)</text>")

logging.getLogger("fontTools").setLevel(logging.WARNING)  # it reports every table


def as_text(svg):
    """Return a figure of matplotlib whose words are text; formulas stay paths."""
    outlines = {}

    def text(found):
        words = found["words"]
        if "  " in words or "- -" in words:  # the comment may not be what is drawn
            return found[0]
        for letter in LETTER.finditer(found["letters"]):
            outlines[letter[1]] = letter[0]
        size = f"{100 * float(found['size']):g}"
        place = f'x="{found["x"]}" y="{found["y"]}"'
        if found["turn"]:
            place = f'transform="translate({found["x"]} {found["y"]}){found["turn"]}"'
        style = f"{found['style']}; font: {size}px {FAMILY}"
        return f'<text {place} style="{style}">{html.escape(words, quote=False)}</text>'

    svg = WORDS.sub(text, svg)
    kept = [outlines[n] for n in outlines if f'"#{n}"' in svg]
    return svg.replace(">", f"><defs>{''.join(kept)}</defs>", 1) if kept else svg


def characters_of(page):
    """Return the set of the characters of the texts in a page's pictures."""
    return {*html.unescape("".join(TEXT.findall(page)))}


def write_font(site, characters):
    """Write matplotlib's font with only some ``characters`` into a site, as WOFF.

    ``site`` is the site's folder. The font's license goes beside it.
    """
    path = Path(site, SERVED)
    path.parent.mkdir(parents=True, exist_ok=True)
    options = subset.Options(
        flavor="woff", hinting=False, layout_features=["kern"], desubroutinize=True
    )
    options.drop_tables += ["FFTM"]  # FontForge's, which would be warned about
    font = subset.load_font(FONTS / "DejaVuSans.ttf", options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text="".join(sorted(characters)))
    subsetter.subset(font)
    subset.save_font(font, path, options)
    shutil.copy(FONTS / "LICENSE_DEJAVU", path.with_name("LICENSE"))
