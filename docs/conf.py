"""Sphinx with MyST-NB: pages are notebooks in Markdown, run when they are built, without network access."""

import importlib.metadata

project = "gadabout"
author = "The gadabout developers"
release = version = importlib.metadata.version("gadabout")
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath", "amsmath"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
html_theme = "furo"
html_title = f"gadabout {release}"
exclude_patterns = ["_build"]
