"""Builds a trajectory's graph while an episode is live (step: rollout)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from strop.trajectory import Segment, path_indexes
from strop.types import Completion, Message, is_message


@dataclass(slots=True)
class _Path:
    """Where a seat's context stands: the segments behind it and what was not yet sampled upon."""

    head: int | None = None
    context: list[Message] = field(default_factory=list)
    """Everything from the root on, pending messages included."""
    pending_count: int = 0
    """How many messages at the end of the context are in no segment yet."""
    token_ids: array[int] | None = field(default_factory=lambda: array("i"))
    """The path's tokens; None once a segment on it has none."""


class Recorder:
    """Segments of one episode; every path holds exactly the tokens that the engine saw.

    An engine returns one flat prompt for each completion. What it holds beyond the path so
    far becomes the tokens of the messages in between; where it does not start with the path,
    the graph forks and `fork_count` rises. Nothing is tokenised here.
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.fork_count = 0
        self._paths: dict[str, _Path] = {}

    def context(self, seat: str) -> list[Message]:
        """All that a seat's next completion is sampled from; live, not to be changed."""
        return self._path(seat).context

    def observe(self, seat: str, messages: Sequence[Message]) -> None:
        """Add messages to a seat's context."""
        path = self._path(seat)
        path.context.extend(messages)
        path.pending_count += len(messages)

    def rebase(self, seat: str, context: Sequence[Message]) -> None:
        """Replace a seat's context; the graph forks at the last segment that both share.

        Raises:
            TypeError: What is new in it is no message.
        """
        path = self._path(seat)
        head, kept = self._shared(seat, path, context)
        if (
            odd := next((each for each in context[kept:] if not is_message(each)), None)
        ) is not None:
            raise TypeError(f"a context holds {odd!r:.200}. Give Messages with text")
        path.head, path.token_ids = head, self._token_ids_to(head)
        path.context = list(context)
        path.pending_count = len(context) - kept

    def commit(self, seat: str, completion: Completion) -> None:
        """Add the pending messages and then the completion as segments."""
        path = self._path(seat)
        prompt_ids = completion.prompt_token_ids
        self._add_messages(seat, path, self._new_token_ids(path, prompt_ids))
        path.token_ids = _joined(prompt_ids, completion.token_ids)
        self._add(
            path,
            Segment(
                "completion",
                seat,
                path.head,
                (completion.message,),
                completion.token_ids,
                completion.logprobs,
                completion.finish_reason,
                completion.usage,
                completion.model,
                completion.latency_s,
                completion.policy_version,
                completion.sampling,
                completion.raw,
            ),
        )
        path.context.append(completion.message)

    def close(self) -> tuple[Segment, ...]:
        """Add what no completion followed; gives the whole graph."""
        for seat, path in self._paths.items():
            if path.pending_count:
                self._add_messages(seat, path, None)
        return tuple(self.segments)

    def _path(self, seat: str) -> _Path:
        path = self._paths.get(seat)
        if path is None:
            path = self._paths[seat] = _Path()
        return path

    def _new_token_ids(self, path: _Path, prompt_ids: array[int] | None) -> array[int] | None:
        if prompt_ids is None:
            return None
        known = path.token_ids
        if known is not None and prompt_ids[: len(known)] == known:
            return prompt_ids[len(known) :]
        self.fork_count += 1
        matching_count = 0
        kept = 0
        head = None
        for index in path_indexes(self.segments, path.head):
            segment = self.segments[index]
            token_ids = segment.token_ids
            if token_ids is None:
                break
            end = matching_count + len(token_ids)
            if prompt_ids[matching_count:end] != token_ids:
                break
            head, matching_count, kept = index, end, kept + len(segment.messages)
        path.head = head
        path.pending_count = len(path.context) - kept
        return prompt_ids[matching_count:]

    def _add_messages(self, seat: str, path: _Path, token_ids: array[int] | None) -> None:
        count = path.pending_count
        if not count and not token_ids:
            return
        messages = tuple(path.context[len(path.context) - count :])
        path.pending_count = 0
        self._add(path, Segment("messages", seat, path.head, messages, token_ids))

    def _add(self, path: _Path, segment: Segment) -> None:
        path.head = len(self.segments)
        self.segments.append(segment)

    def _shared(self, seat: str, path: _Path, context: Sequence[Message]) -> tuple[int | None, int]:
        """The deepest segment of the seat up to which `context` agrees, and its messages."""
        head, kept = None, 0
        for index in path_indexes(self.segments, path.head):
            end = kept + len(self.segments[index].messages)
            if tuple(context[kept:end]) != self.segments[index].messages:
                # An edited history, or another conversation that the seat leads meanwhile.
                return self._deepest(seat, context)
            head, kept = index, end
        return head, kept

    def _deepest(self, seat: str, context: Sequence[Message]) -> tuple[int | None, int]:
        found: tuple[int | None, int] = (None, 0)
        # Messages before each segment that is still on a path that agrees; parents stand first.
        agreed: dict[int | None, int] = {None: 0}
        for index, segment in enumerate(self.segments):
            kept = agreed.get(segment.parent)
            if kept is None or segment.seat != seat:
                continue
            end = kept + len(segment.messages)
            if tuple(context[kept:end]) == segment.messages:
                agreed[index] = end
                if end >= found[1]:
                    found = index, end
        return found

    def _token_ids_to(self, head: int | None) -> array[int] | None:
        token_ids: array[int] | None = array("i")
        for index in path_indexes(self.segments, head):
            token_ids = _joined(token_ids, self.segments[index].token_ids)
        return token_ids


def _joined(left: array[int] | None, right: array[int] | None) -> array[int] | None:
    return None if left is None or right is None else left + right
