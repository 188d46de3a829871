"""The Slack sink: a message per session that is kept up to date, with a reply per run; or a webhook."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from curator_bench.sinks import slack_blocks as blocks
from curator_bench.sinks.sink import Refused, Sink, SinkConfig, TryLater
from curator_bench.sinks.state import keep_newest
from curator_bench.values import Run, RunRecord, Session, Summary, Verdict

if TYPE_CHECKING:
    from slack_sdk import WebClient
    from slack_sdk.webhook import WebhookClient

_TIMEOUT_S = 20.0
_HEAD_START_S = 0.25
"""The pause between replies that are sent together, so that they arrive in order."""
_LATER = ("ratelimited", "rate_limited", "service_unavailable", "internal_error", "fatal_error", "request_timeout")
_MOST_FINDINGS = 10
"""The most findings of a session that get a message of their own."""
_MESSAGE_GONE = ("message_not_found", "cant_update_message", "edit_window_closed")


class SlackConfig(SinkConfig):
    """The block `{name: slack, …}`: a bot's token and a channel, or a webhook."""

    bot_token: str = Field("", description="Token of a bot with `chat:write`; default: SLACK_BOT_TOKEN.", repr=False)
    channel_id: str = Field("", description="The channel; otherwise SLACK_CHANNEL_ID.")
    webhook_url: str = Field("", description="An incoming webhook; default: SLACK_WEBHOOK_URL.", repr=False)
    webhook_env: str = Field("", description="The variable that holds the webhook (older spelling).")
    api_url: str = Field("https://slack.com/api/", description="The address of Slack's API, or of a gateway.")
    default_metrics: list[str] = Field(default_factory=lambda: ["exec_time_s"], description="Shown of every run.")
    live_updates: bool = Field(True, description="Update the message of the session while it runs.")
    thread_replies_for_failures_or_warnings_only: bool = Field(
        False, description="Reply only for runs that failed or have warnings."
    )
    ping_users_on_failure: bool | list[str] = Field(
        True, description="Mention the people an entry names when it fails; or also these, for every entry."
    )
    viewer_url: str = Field("", description="Where results can be looked at, if the matrix does not say it.")

    @model_validator(mode="before")
    @classmethod
    def _from_variables(cls, given: Any) -> Any:
        """Fill settings the block leaves out from variables. A block with a webhook ignores the variables of a bot."""
        if not isinstance(given, Mapping):
            return given
        found = dict(given)
        if variable := found.get("webhook_env"):
            found["webhook_url"] = os.environ.get(str(variable), "")
        names = {"bot_token": "SLACK_BOT_TOKEN", "channel_id": "SLACK_CHANNEL_ID"}
        if not found.get("webhook_url"):
            found |= {key: os.environ.get(name, "") for key, name in names.items() if not found.get(key)}
        if not (found.get("bot_token") and found.get("channel_id")) and not found.get("webhook_url"):
            found["webhook_url"] = os.environ.get("SLACK_WEBHOOK_URL", "")
        return found

    @field_validator("webhook_url", "api_url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("is not a URL that begins with https://")  # the value may be a secret, so it is not shown
        return value

    def lacks(self) -> str:
        if self.webhook_url or (self.bot_token and self.channel_id):
            return ""
        return (
            "bot_token and channel_id, or webhook_url; or the variables SLACK_BOT_TOKEN and SLACK_CHANNEL_ID, "
            "or SLACK_WEBHOOK_URL"
        )


class SlackData(BaseModel):
    """The model of an entry's `sink_data` for Slack."""

    model_config = ConfigDict(extra="forbid")

    additional_metrics: list[str] = Field(default_factory=list)
    ping_on_failure: bool | list[str] = True


class SlackSink(Sink[SlackConfig]):
    config_model = SlackConfig
    data_model = SlackData
    needs = ("slack_sdk", "")
    at_once: ClassVar[int] = 2
    """Two at once: Slack takes about one message a second per channel, and may answer in two seconds."""
    _session: Session

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._replied: list[RunRecord] = []
        """Replies of the current call that were sent, so that they are not sent again if the call is repeated."""

    @property
    def _by_bot(self) -> bool:
        return bool(self.config.bot_token and self.config.channel_id)

    def start_session(self, session: Session) -> None:
        self._session = session = replace(session, viewer_url=session.viewer_url or self.config.viewer_url)
        with self.context.state.changing() as state:
            _expect_no_more(state, {session.invocation})
            state.setdefault("expected", {})[session.invocation] = session.runs_expected
            state.setdefault("started_at", session.started_at)
            state.setdefault("open", {})[session.invocation] = {}
            state.setdefault("processes", {})[session.invocation] = [socket.gethostname(), os.getpid()]
            if self._by_bot and "ts" not in state:  # under the lock: other invocations wait, then find the message
                state["ts"] = self._post(blocks.parent(session, state), None)["ts"]
            elif not self._by_bot and "told" not in state:
                self._post(blocks.parent(session, state), None)
                state["told"] = True

    def run_started(self, run: Run) -> None:
        with self.context.state.changing() as state:
            state.setdefault("open", {}).setdefault(self._session.invocation, {})[run.nodeid] = run.name

    def run_finished(self, result: RunRecord) -> None:
        self.runs_finished([result])

    def runs_finished(self, results: Sequence[RunRecord]) -> None:
        _all_at_once(self._tell_of, results)
        self._replied.clear()

    def _tell_of(self, result: RunRecord) -> None:
        if self._wants_reply(result) and not any(result is done for done in self._replied):
            thread = self.context.state.read().get("ts")
            self._post(blocks.reply(self._told_once(result), self._metrics_of(result), self._pinged(result)), thread)
            self._replied.append(result)
        if not result.is_last:
            return
        with self.context.state.changing() as state:
            shown = [result.name, str(result.verdict), len(result.inconclusive), self._session.invocation]
            keep_newest(state, result, shown)
            state.setdefault("open", {}).setdefault(self._session.invocation, {}).pop(result.nodeid, None)

    def catch_up(self) -> None:
        if self._by_bot and self.config.live_updates:
            self._update(None)

    def end_session(self, summary: Summary) -> None:
        with self.context.state.changing() as state:
            state.setdefault("open", {}).pop(self._session.invocation, None)
            if summary.exit_status is None:  # the invocation was killed, and others may have gone on since
                _expect_no_more(state, set(state["expected"]) if len(state["expected"]) == 1 else set())
        self._update(summary)
        reported = self.context.state.read().get("findings", ())
        for one in summary.findings[:_MOST_FINDINGS]:
            if one.name not in reported:
                self._post(blocks.finding(one), self.context.state.read().get("ts"))
                with self.context.state.changing() as state:
                    state.setdefault("findings", []).append(one.name)

    def _told_once(self, result: RunRecord) -> RunRecord:
        """Leave out what changed if the reply of another run has it: each cause is described once."""
        if not result.changed:
            return result
        key = hashlib.sha256("\n".join(result.changed).encode()).hexdigest()
        with self.context.state.changing() as state:
            teller = state.setdefault("changed", {}).setdefault(key, result.uid or result.nodeid)
        return result if teller == (result.uid or result.nodeid) else replace(result, changed=())

    def _update(self, summary: Summary | None) -> None:
        """Update the session's message. A webhook cannot change a message, so a new one is sent."""
        state = self.context.state.read()
        message = blocks.parent(self._session, state, summary)
        if not self._by_bot:
            self._post(message, None)
            return
        from slack_sdk.errors import SlackApiError

        try:
            self._call(self._web.chat_update, channel=self.config.channel_id, ts=state["ts"], **message)
        except SlackApiError as error:
            if error.response.get("error") not in _MESSAGE_GONE:
                raise

    def _wants_reply(self, result: RunRecord) -> bool:
        is_fine = result.verdict in (Verdict.PASSED, Verdict.SKIPPED)
        went_well = is_fine and not result.warnings and not result.inconclusive
        return not (went_well and self.config.thread_replies_for_failures_or_warnings_only)

    def _metrics_of(self, result: RunRecord) -> list[str]:
        more = result.sink_data.get("additional_metrics", ())
        return list(dict.fromkeys([*self.config.default_metrics, *more]))

    def _pinged(self, result: RunRecord) -> list[str]:
        of_all, of_entry = self.config.ping_users_on_failure, result.sink_data.get("ping_on_failure", True)
        is_muted = of_all is False or of_entry is False
        if is_muted or result.verdict in (Verdict.PASSED, Verdict.SKIPPED) or not result.is_last:
            return []
        return list(dict.fromkeys(user for users in (of_all, of_entry) if isinstance(users, list) for user in users))

    @cached_property
    def _web(self) -> WebClient:
        from slack_sdk import WebClient

        return WebClient(token=self.config.bot_token, base_url=self.config.api_url, **self._client_options())

    @cached_property
    def _webhook(self) -> WebhookClient:
        from slack_sdk.webhook import WebhookClient

        return WebhookClient(self.config.webhook_url, **self._client_options())

    def _client_options(self) -> dict[str, Any]:
        """Return options for Slack's clients.

        The time limit is below that of a call, so that a hanging server is an error and is tried again. The client
        neither retries nor logs: the delivery retries, and the log would show a webhook's address, which is a secret.
        """
        silent = logging.Logger("slack_sdk", logging.CRITICAL + 1)
        return {"timeout": min(_TIMEOUT_S, self.config.call_timeout_s / 2), "retry_handlers": [], "logger": silent}

    def _post(self, message: Mapping[str, Any], thread: str | None) -> Any:
        if self._by_bot:
            more = {"thread_ts": thread} if thread else {}
            return self._call(self._web.chat_postMessage, channel=self.config.channel_id, **message, **more)
        return self._send(message)

    def _call(self, method: Any, **given: Any) -> Any:
        from slack_sdk.errors import SlackApiError

        try:
            return method(**given)
        except SlackApiError as error:
            raise self._explained(error) from error

    def _explained(self, error: Any) -> Exception:
        response, reason = error.response, str(error.response.get("error") or error.response.status_code)
        if response.status_code == 429 or reason in _LATER[:2]:
            return TryLater("Slack asks for a pause", _retry_after(response.headers))
        if response.status_code >= 500 or reason in _LATER:
            return ConnectionError(f"Slack answers {reason}")
        return error if reason in _MESSAGE_GONE else Refused(f"Slack refuses: {reason}")

    def _send(self, message: Mapping[str, Any]) -> None:
        response = self._webhook.send(text=message["text"], blocks=message["blocks"])
        if response.status_code == 429:
            raise TryLater("Slack asks for a pause", _retry_after(response.headers))
        if response.status_code >= 500:
            raise ConnectionError(f"Slack answers {response.status_code}")
        if response.status_code != 200:
            raise Refused(f"Slack refuses: {response.status_code} {response.body}")


def _expect_no_more(state: dict[str, Any], but_of: Container[str]) -> None:
    """Stop expecting the unfinished runs of invocations that are over."""
    done = Counter(invocation for *_, invocation in state.get("verdicts", {}).values())
    still_open, processes = state.setdefault("open", {}), state.setdefault("processes", {})
    for invocation in state.get("expected", {}):
        if invocation in still_open and not _is_there(*processes[invocation]):
            del still_open[invocation]
        if invocation not in but_of and invocation not in still_open:
            state["expected"][invocation] = done[invocation]


def _is_there(host: str, pid: int) -> bool:
    """True if the process is alive. A process of another host is taken to be alive."""
    try:
        if host == socket.gethostname():
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _all_at_once(call: Callable[[RunRecord], None], results: Sequence[RunRecord]) -> None:
    """Call for all results in parallel, in daemon threads. Raises the first error after all have ended."""
    failed: dict[int, Exception] = {}

    def do(index: int) -> None:
        try:
            call(results[index])
        except Exception as error:  # raised again below
            failed[index] = error

    threads = [threading.Thread(target=do, args=(index,), daemon=True) for index in range(len(results))]
    for thread in threads:
        thread.start()
        thread.join(_HEAD_START_S)
    for thread in threads:
        thread.join()
    if failed:
        raise failed[min(failed)]


def _retry_after(headers: Mapping[str, Any]) -> float:
    found: Any = next((value for name, value in headers.items() if name.lower() == "retry-after"), None)
    text = str(found[0] if isinstance(found, list) and found else found)
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else 30.0
