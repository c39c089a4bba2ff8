"""How Sphinx builds the guide: MyST reads the pages, numpydoc the docstrings, furo draws them."""

from typing import Any

from sphinx.application import Sphinx

import onlinels

project = "onlinels"
author = "The onlinels developers"
copyright = f"2026, {author}"
version = release = onlinels.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
]
templates_path = ["templates"]

# `$` is for equations; headings have anchors that other pages may link to.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

# Every public object has a page of its own, with its methods on it.
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
# In docstrings `name` is a link where such an object is documented.
default_role = "autolink"

# Copied code has no prompts and no output.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True

# An example ends with an empty line, which tells doctest that its output ends there.
highlight_options = {"python": {"stripnl": True}}

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["guide.css"]
html_title = f"onlinels {release}"
html_show_sourcelink = False


def leave_out(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any) -> bool:
    """Leave out what classes have from river, whose documentation is elsewhere."""
    function = getattr(member, "fget", member)
    module = getattr(function, "__module__", None) or "onlinels"
    return skip or not module.startswith("onlinels")


def setup(app: Sphinx) -> None:
    """Connect what this file adds to Sphinx."""
    app.connect("autodoc-skip-member", leave_out)
