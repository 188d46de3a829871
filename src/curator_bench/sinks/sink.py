"""The base class of sinks: the methods a sink may implement, and the context it gets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from curator_bench.errors import BenchError
from curator_bench.masking import Mask
from curator_bench.sinks.state import State
from curator_bench.values import Run, RunRecord, Session, Summary


class Refused(BenchError):
    """The message cannot be delivered, and trying again would not help. The reason is shown to the user."""


class TryLater(BenchError):
    """The place a result is reported to asks for a pause."""

    def __init__(self, reason: str, after_s: float) -> None:
        super().__init__(reason)
        self.after_s = after_s


class SinkConfig(BaseModel):
    """The settings in a sink's block of the matrix. A sink with settings of its own has a subclass."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    call_timeout_s: float = Field(60, gt=0, description="Seconds one call of the sink may take.")

    def lacks(self) -> str:
        """Return the required settings that are missing, as text for the user; the sink is then off.

        Wrong values are for validators.
        """
        return ""


Config = TypeVar("Config", bound=SinkConfig)


@dataclass(frozen=True, slots=True)
class Context:
    """The facts and callbacks a sink gets beside its settings."""

    name: str
    session_dir: Path
    matrix_dir: Path
    """The folder of the matrix file. Relative paths in the sink's block are relative to it."""
    link: Callable[[str, str], None]
    """Show a URL to the user: that of the run with this uid, or of the session if the uid is empty."""
    say: Callable[[str], None]
    """Show a line at the end of pytest's output."""
    alive: Callable[[], None] = lambda: None
    """Report progress in a long call: its time limit and the grace period at the end start again."""
    mask: Mask = field(default_factory=Mask)
    """Hides secrets. Messages are masked already, but the files that scripts wrote are not."""

    @property
    def state(self) -> State:
        """The sink's memory from one invocation of the session to the next."""
        return State(self.session_dir / "sinks" / f"{self.name}.json")


class Sink(Generic[Config]):
    """A place results are reported to. All methods are optional.

    They are called one after the other on the sink's own thread. A call that raises is tried again, unless it raises
    `Refused`. `start_session` is called again when another invocation joins the session, and by `curator-bench resend`.
    """

    config_model: ClassVar[type[SinkConfig]] = SinkConfig
    data_model: ClassVar[type[BaseModel] | None] = None
    """The model of an entry's `sink_data` for this sink. None accepts anything."""
    needs: ClassVar[tuple[str, str] | None] = None
    """A required module, and the extra that installs it."""
    catch_up_every_s: ClassVar[float] = 5.0
    at_once: ClassVar[int] = 1
    """The most results `runs_finished` gets at once."""

    def __init__(self, config: Config, context: Context) -> None:
        self.config = config
        self.context = context

    def start_session(self, session: Session) -> None:
        """An invocation has joined the session. If this raises, everything after it has to wait."""

    def run_started(self, run: Run) -> None:
        """A run has started. Not called if its result is already known."""

    def run_finished(self, result: RunRecord) -> None:
        """A run has ended and been judged."""

    def runs_finished(self, results: Sequence[RunRecord]) -> None:
        """Several runs have ended. Called if many wait and `at_once` allows it. A retry may repeat some."""
        for result in results:
            self.run_finished(result)

    def end_session(self, summary: Summary) -> None:
        """This invocation has ended."""

    def catch_up(self) -> None:
        """The queue is empty, and something was delivered since: send an update of an earlier message here.

        Called at most every `catch_up_every_s`. If it raises, it is not tried again: the next update replaces it.
        """

    def abandon(self) -> None:
        """A call has taken too long: end it if possible. Called from another thread."""

    def close(self) -> None:
        """No further calls will come: release resources."""
