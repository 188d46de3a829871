"""Turns on what the tests of this repository need; the plugin itself is turned on by its entry point."""

import signal

pytest_plugins = ["pytester", "stand_ins.nvidia_driver", "stand_ins.object_store", "stand_ins.code_hosts"]


def pytest_configure() -> None:
    """Started in the background, as by nohup, a process ignores Ctrl-C, and so would the programs that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
