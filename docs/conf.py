"""The documentation site (Sphinx with MyST, so that pages stay Markdown).

`make site` builds it into site/ with warnings as errors. Nothing is fetched, neither while building nor by a
built page (tests/docs).
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

project = "icgd"
copyright = "MIT licence"
html_title = "icgd"
extensions = ["myst_parser", "sphinx.ext.autodoc", "tools.docs_sphinx"]
root_doc = "index"
smartquotes = False
exclude_patterns = ["conf.py"]

# Pages: Markdown with $formulas$; a link or an anchor that leads nowhere is a warning, hence an error.
myst_enable_extensions = ["dollarmath"]
myst_dmath_double_inline = True
myst_heading_anchors = 4
myst_heading_slug_func = "tools.docs_sphinx.slug"
html_math_renderer = "mathml"

# The API reference: everything public that has a docstring, in the order of the source.
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    "exclude-members": "model_config",
}
autodoc_class_signature = "mixed"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
maximum_signature_line_length = 88

# Looks: the reader's own fonts, a light and a dark palette; colours are those of the figures.
html_theme = "furo"
html_favicon = "assets/favicon.svg"
html_logo = "assets/favicon.svg"
html_static_path = ["assets"]
html_css_files = ["site.css"]
html_extra_path = ["trace.schema.json"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_use_index = False
html_domain_indices = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#0b4f79",
        "color-brand-content": "#0b66a0",
        "color-api-name": "#0b4f79",
    },
    "dark_css_variables": {
        "color-brand-primary": "#6cb9ef",
        "color-brand-content": "#6cb9ef",
        "color-api-name": "#6cb9ef",
    },
    "footer_icons": [],
}
pygments_style = "friendly"
pygments_dark_style = "native"
