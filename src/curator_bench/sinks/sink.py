"""The base class of sinks: what one may implement, and what it is given to do so."""

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
    """What a sink was told cannot be delivered, and trying again would not help: the reason is for the user."""


class TryLater(BenchError):
    """The place a result is reported to asks for a pause."""

    def __init__(self, reason: str, after_s: float) -> None:
        super().__init__(reason)
        self.after_s = after_s


class SinkConfig(BaseModel):
    """What may stand in a sink's block of the matrix; a sink with settings of its own has a subclass."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)

    call_timeout_s: float = Field(60, gt=0, description="Seconds one call of the sink may take.")

    def lacks(self) -> str:
        """What neither the block nor the environment says; such a sink is off. A mistake is for validators."""
        return ""


Config = TypeVar("Config", bound=SinkConfig)


@dataclass(frozen=True, slots=True)
class Context:
    """What a sink is given beside its settings."""

    name: str
    session_dir: Path
    matrix_dir: Path
    """The folder of the matrix file, which relative paths in the sink's block are relative to."""
    link: Callable[[str, str], None]
    """Tells of a URL: of the run with this uid, or of the session when it is empty."""
    say: Callable[[str], None]
    """A line for the end of pytest's output."""
    alive: Callable[[], None] = lambda: None
    """Tells in the middle of a long call that it gets on: its time limit and the grace at the end begin anew."""
    mask: Mask = field(default_factory=Mask)
    """What a sink is told is masked; files that scripts wrote are not."""

    @property
    def state(self) -> State:
        """What the sink has to remember from one invocation of the session to the next."""
        return State(self.session_dir / "sinks" / f"{self.name}.json")


class Sink(Generic[Config]):
    """A place results are reported to. All methods are optional.

    They are called one after the other on a thread that belongs to the sink. What they raise is tried again, but for
    `Refused`. `start_session` is called again when another invocation joins the session, and by `curator-bench resend`.
    """

    config_model: ClassVar[type[SinkConfig]] = SinkConfig
    data_model: ClassVar[type[BaseModel] | None] = None
    """What an entry may say to this sink in `sink_data`; None leaves it open."""
    needs: ClassVar[tuple[str, str] | None] = None
    """A module and the extra it comes with."""
    catch_up_every_s: ClassVar[float] = 5.0
    at_once: ClassVar[int] = 1
    """How many results `runs_finished` is given at most."""

    def __init__(self, config: Config, context: Context) -> None:
        self.config = config
        self.context = context

    def start_session(self, session: Session) -> None:
        """An invocation has joined the session. What is raised here holds back everything after it."""

    def run_started(self, run: Run) -> None:
        """A run has started. Left out where its result is known by the time the sink gets to it."""

    def run_finished(self, result: RunRecord) -> None:
        """A run has ended and been judged."""

    def runs_finished(self, results: Sequence[RunRecord]) -> None:
        """Several at once, where so many wait and `at_once` allows it. May be told again of those it has done."""
        for result in results:
            self.run_finished(result)

    def end_session(self, summary: Summary) -> None:
        """This invocation has ended."""

    def catch_up(self) -> None:
        """Nothing else is waiting, and something was told since: a message that only updates another goes out here.

        At most every `catch_up_every_s`. What is raised is not tried again: the next update takes its place.
        """

    def abandon(self) -> None:
        """A call has taken too long: end it, if there is a way. Called from another thread."""

    def close(self) -> None:
        """Nothing more will come."""
