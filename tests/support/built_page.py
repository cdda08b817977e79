"""The page of reports as `make page` builds it; where Node's packages are not to be had it is absent."""

from __future__ import annotations

from importlib.resources import files

import pytest

is_built = (files("ullage.report") / "page/report.html").is_file()
needs_page = pytest.mark.skipif(not is_built, reason="the page of reports is not built (make page)")
