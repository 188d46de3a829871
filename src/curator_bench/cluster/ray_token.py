"""Makes Ray in this process forget the token it has read; the private parts of Ray this needs stand here only."""

from __future__ import annotations

import importlib
from typing import Any


def read_token_again() -> None:
    """Ray reads RAY_AUTH_MODE and its token once per process; the next use after this call reads them again.

    The mode goes first: a thread of Ray that still speaks to the last cluster would otherwise look for a token that is
    no longer there, and end the process for want of it.
    """
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
