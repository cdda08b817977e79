"""How the documentation is built: `make docs`."""

project = "Ullage"
author = "The Ullage developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "Ullage"
exclude_patterns = ["_build"]
# Code in console blocks is checked by the tests; colouring it must not fail the build.
suppress_warnings = ["misc.highlighting_failure"]
