"""Program that runs one test of pytest as the script of an extra run, and records nothing.

Arguments: those of pytest, then --benchmark-results-path and the folder for metrics.json, as every script gets them.
"""

from __future__ import annotations

import os
import sys

OWN_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def main() -> int:
    *arguments, _option, results = sys.argv[1:]
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != OWN_DIRECTORY]
    import pytest

    code = int(pytest.main(arguments))
    if code == 0:
        with open(os.path.join(results, "metrics.json"), "w") as file:
            file.write("{}")
    return code


if __name__ == "__main__":
    sys.exit(main())
