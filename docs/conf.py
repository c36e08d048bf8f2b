"""Sphinx with MyST-NB: pages are notebooks in Markdown, run when they are built, without network access.

The checks build with `-D nb_execution_mode=off`: tests run the pages' cells.
"""

import importlib.metadata
import re

project = "gadabout"
author = "The gadabout developers"
release = version = importlib.metadata.version("gadabout")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx-mathjax-offline"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"show-inheritance": False}
add_module_names = False
html_theme = "furo"
html_title = f"gadabout {release}"
exclude_patterns = ["_build", "jupyter_execute"]


def with_language(app, name, source):
    """Cells are highlighted as Python where they are not run, and no kernel says what they are."""
    source[0] = source[0].replace("  name: python3\n", "  name: python3\n  language: python\n", 1)


CODE, MATH = re.compile(r"(?<![`:])`([^`]+)`(?!`)"), re.compile(r"(?<!\$)\$([^$]+)\$(?!\$)")
DISPLAY = re.compile(r"\s*\$\$(.+?)\$\$\s*", re.DOTALL)


def in_plain_text(app, what, name, obj, options, lines):
    """Docstrings are written for readers of the source; `code`, $formulas$, bare | and * become what Sphinx reads."""
    text = "\n".join(lines)
    held: list[str] = []

    def hold(markup):
        held.append(markup)
        return f"\x00{len(held) - 1}\x00"

    text = DISPLAY.sub(lambda found: "\n\n" + hold(f".. math:: {' '.join(found[1].split())}") + "\n\n", text)
    text = CODE.sub(lambda found: hold(f"``{' '.join(found[1].split())}``"), text)
    text = re.sub("(\x00\\d+\x00)(?=\\w)", r"\1\\ ", text)  # a plural's s
    text = MATH.sub(lambda found: hold(f":math:`{' '.join(found[1].split())}`"), text)
    text = re.sub(r"([*|_])(?=\W|$)|(?<!\w)([*|])", lambda found: "\\" + found[0], text)
    lines[:] = re.sub("\x00(\\d+)\x00", lambda found: held[int(found[1])], text).split("\n")


def setup(app):
    app.connect("source-read", with_language)
    app.connect("autodoc-process-docstring", in_plain_text, priority=400)  # before napoleon
