"""Self-check questions, whose choices open to show an answer without a script."""

import html

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

LOGGER = logging.getLogger(__name__)
RIGHT, WRONG = "✓", "✗"


class Question(SphinxDirective):
    """Directive ``{question}``: a question, then a definition list of answers.

    A term of the list is a choice, its definition the answer to that choice. One answer
    begins with ✓. The others begin with ✗ and the name of the mistake in bold.
    """

    has_content = True

    def run(self):
        """Return a box with the question and choices that open to show an answer.

        Without a list of choices at the end, warn and return no node.
        """
        parsed = self.parse_content_to_nodes()
        lists = [part for part in parsed if isinstance(part, nodes.definition_list)]
        if len(lists) != 1 or parsed[-1] is not lists[0]:
            self.complain("a question must end with one list of choices")
            return []
        choices = [(item[0], item[-1]) for item in lists[0]]
        marks = [answer.astext().strip()[:1] for _, answer in choices]
        if sorted(marks) != sorted(RIGHT + WRONG * (len(marks) - 1)) or len(marks) < 3:
            self.complain(
                "a question needs at least three answers, one of them marked "
                f"{RIGHT} and the others {WRONG}, got {marks}"
            )
        for mark, (choice, answer) in zip(marks, choices, strict=True):
            if mark == WRONG and answer.next_node(nodes.strong) is None:
                self.complain(
                    f"the answer to {choice.astext()!r} must name its mistake in bold"
                )
        box = nodes.container("", *parsed[:-1], classes=["posedu-question"])
        for mark, parts in zip(marks, choices, strict=True):
            box += _fold(mark, *parts)
        return [box]

    def complain(self, message):
        """Emit a warning about the question, which the build treats as an error."""
        place = self.get_source_info()
        LOGGER.warning(message, location=place, type="posedu", subtype="question")


def _fold(mark, choice, answer):
    kind = "right" if mark == RIGHT else "wrong"
    name = html.escape(choice.astext())  # screen readers cannot read a formula
    named = f' aria-label="{name}"' if _is_formula(choice) else ""
    start = f'<details class="posedu-choice"><summary{named}>'
    return [
        nodes.raw("", start, format="html"),
        nodes.inline("", "", *choice.children),
        nodes.raw("", "</summary>", format="html"),
        nodes.container("", *answer.children, classes=[f"posedu-{kind}"]),
        nodes.raw("", "</details>", format="html"),
    ]


def _is_formula(choice):
    words = [part.astext() for part in choice if not isinstance(part, nodes.math)]
    return not any(character.isalnum() for character in "".join(words))


def setup(app):
    """Register the ``question`` directive."""
    app.add_directive("question", Question)
