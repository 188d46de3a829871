"""A Ray driver in this process. Only this module changes our own environment, and restores it."""

from __future__ import annotations

import importlib
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from curator_bench.cluster.environment import ADDRESS_AND_TOKEN
from curator_bench.cluster.ray_token import read_token_again
from curator_bench.errors import ClusterError

_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def driver(address: str, env: Mapping[str, str], **init_options: Any) -> Iterator[ModuleType]:
    """See `Cluster.driver`."""
    __tracebackhide__ = True  # pytest shows the arguments of a frame, and here the token is one
    if not _ONE_AT_A_TIME.acquire(blocking=False):
        raise ClusterError("this process already is a driver of a Ray cluster; leave that block before the next one")
    with ExitStack() as stack:
        stack.callback(_ONE_AT_A_TIME.release)
        stack.enter_context(_signal_handlers_kept())
        stack.enter_context(_environment_kept())
        ray: Any = importlib.import_module("ray")
        if ray.is_initialized():
            raise ClusterError("this process called ray.init() itself; call ray.shutdown() before cluster.driver()")
        stack.enter_context(_address_and_token(env))
        stack.callback(ray.shutdown)
        ray.init(address=address, **{"configure_logging": False, **init_options})
        yield ray


@contextmanager
def _address_and_token(env: Mapping[str, str]) -> Iterator[None]:
    __tracebackhide__ = True  # as above
    before = {name: os.environ.get(name) for name in ADDRESS_AND_TOKEN}
    _set({name: env.get(name) for name in ADDRESS_AND_TOKEN})
    try:
        read_token_again()
        yield
    finally:
        _set(before)
        read_token_again()


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Restore the environment after the block: Ray sets RAY_CLIENT_MODE and PYTHONBREAKPOINT."""
    before = _what_ray_writes()
    try:
        yield
    finally:
        _set({**dict.fromkeys(_what_ray_writes()), **before})


def _what_ray_writes() -> dict[str, str | None]:
    names = {"PYTHONBREAKPOINT", *(name for name in os.environ if name.startswith("RAY_"))}
    return {name: os.environ.get(name) for name in names}


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Restore the handler of SIGTERM after the block: in the main thread, `ray.init` replaces it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)
