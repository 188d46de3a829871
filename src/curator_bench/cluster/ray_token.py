"""Make Ray in this process forget its token. Only this module uses private parts of Ray."""

from __future__ import annotations

import importlib
from typing import Any


def read_token_again() -> None:
    """Let Ray read RAY_AUTH_MODE and its token again, which it otherwise does once per process.

    The mode is reset first. Otherwise a thread of Ray that is still connected to the last cluster would look for its
    token, find none, and end the process.
    """
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
