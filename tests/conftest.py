"""Fixtures shared by the tests."""

import pytest

from lme_utils.config import ROOT


@pytest.fixture(scope="session")
def shared():
    """The folder with real data, where there is one; tests skip without it."""
    folder = ROOT.parent / "shared"
    if not (folder / "data").is_dir():
        pytest.skip("needs the real LongMemEval files in a folder beside the project")
    return folder
