"""One plan for all of these tests: it takes ten CPU seconds to make."""

from __future__ import annotations

import pytest

from support.kept_case import KeptCase, kept_case


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> KeptCase:
    return kept_case(tmp_path_factory.mktemp("kept"))
