"""The stand-in for an S3-compatible store: a server on loopback that the real client libraries talk to."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

KEYS = {"key": "planted-id", "secret": "planted-secret"}


@pytest.fixture
def s3() -> Iterator[dict[str, str]]:
    """What a client has to know, as the variables all of them read. The store is empty."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    importlib.import_module("moto.core.base_backend").BackendDict.reset()  # all servers of one process share one store
    yield {
        "AWS_ENDPOINT_URL": "http://{}:{}".format(*server.get_host_and_port()),
        "AWS_ACCESS_KEY_ID": KEYS["key"],
        "AWS_SECRET_ACCESS_KEY": KEYS["secret"],
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    server.stop()


def open_store(s3: dict[str, str]) -> Any:
    """A client of the test's own, which has seen nothing before."""
    return importlib.import_module("s3fs").S3FileSystem(
        **KEYS, endpoint_url=s3["AWS_ENDPOINT_URL"], skip_instance_cache=True
    )
