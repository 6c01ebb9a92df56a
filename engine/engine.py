"""One model that answers conversations, one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from engine.chat_template import ChatTemplate, Rendered
from engine.errors import Busy, InvalidPrompt
from engine.evaluation import Evaluation, RemainingMs
from engine.events import Event
from engine.generation import Generation
from engine.grammar import GrammarVocabulary
from engine.memory import machine_memory, plan_memory
from engine.model_file import ModelFile
from engine.native import Model
from engine.page_in import PageIn
from engine.prompt import Prompt, Prompter
from engine.request import ChatRequest
from engine.snapshots import Note, SnapshotPlaces, Snapshots
from engine.splice import Splicer
from engine.stages import Stages
from engine.threads import default_thread_count
from engine.tokenizer import Tokenizer, check_length


class Engine:
    """A model with its vocabulary, its template, its live session and the snapshots of earlier ones."""

    def __init__(
        self,
        file: ModelFile,
        model: Model,
        *,
        context: int,
        cache_bytes: int,
        splice: bool,
        snapshots: Snapshots | None = None,
        stages: Stages | None = None,
    ) -> None:
        stages = stages or Stages()
        self._file = file
        self.tokenizer = Tokenizer(file)
        stages.end("tokenizer")
        self._grammars = GrammarVocabulary(self.tokenizer)
        self.template = ChatTemplate(file.chat_template, self.tokenizer, file.path, context)
        stages.end("template")
        never = np.flatnonzero(~self.tokenizer.sampleable).astype(np.int32)
        self.evaluation = Evaluation(model, context, cache_bytes, never, snapshots)
        self._snapshots = snapshots
        self._splicer = Splicer(self.tokenizer) if splice else None
        self._prompter = Prompter(self.template, self._splicer, context)
        self._turn = threading.Lock()
        self.context = context
        self.cache_bytes = cache_bytes
        self.model_name = file.name
        self.isa = model.isa
        self.load_ms = 0.0
        self.page_in: PageIn | None = None
        stages.end("session")
        self.stages = stages

    @classmethod
    def load(
        cls,
        path: str,
        *,
        context: int | None = None,
        threads: int | None = None,
        isa: str | None = None,
        memory_bytes: int | None = None,
        cache_bytes: int | None = None,
        splice: bool = True,
        places: SnapshotPlaces | None = None,
        note: Note = lambda _event, _facts: None,
        stages: Stages | None = None,
    ) -> Engine:
        """Map a model file and make it ready.  None means: find out, or choose.

        ``places`` are where base snapshots are looked for and, by ``idle``, kept; ``note`` is told what happens there.
        ``stages`` continues with those of this load.  ``page_in`` brings the weights into memory meanwhile, and after.

        Raises ModelFileError, OutOfMemory or UnsupportedCpu, each with one sentence.
        """
        started = time.perf_counter()
        stages = stages or Stages()
        file = ModelFile(path)
        stages.end("header")
        model = Model(file, n_threads=threads or default_thread_count(), isa=isa)
        plan = plan_memory(
            memory_bytes=memory_bytes if memory_bytes is not None else machine_memory(),
            file_bytes=file.size,
            workspace_bytes=model.workspace_bytes,
            state_bytes=model.state_bytes,
            kv_token_bytes=model.kv_token_bytes,
            trained_context=file.config.context_length,
            context=context,
            cache_bytes=cache_bytes,
        )
        stages.end("model")
        stores = places.stores(file.fingerprint) if places else []
        snapshots = Snapshots(stores, model, file.fingerprint, note) if stores else None
        stages.end("fingerprint")
        page_in = file.read_ahead()  # of what is known to fit; the tokenizer takes about as long
        engine = cls(
            file,
            model,
            context=plan.context,
            cache_bytes=plan.cache_bytes,
            splice=splice,
            snapshots=snapshots,
            stages=stages,
        )
        engine.page_in = page_in
        engine.load_ms = (time.perf_counter() - started) * 1e3
        return engine

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and the vocabulary."""
        return self._file.fingerprint

    def chat(self, request: ChatRequest, remaining_ms: RemainingMs) -> Iterator[Event]:
        """Answer a conversation.  ``remaining_ms`` is asked again and again; at 0 the answer ends.

        Raises InvalidPrompt, ContextFull, OutOfTime or Busy before the first event, and NumericFault or DeadEnd at
        any time.
        Closing the iterator stops the work and leaves the engine ready for the next request.
        """
        with self._exclusive(remaining_ms):
            generation = yield from self._generate(request, self._prompter.prompt(request), remaining_ms)
            answer = generation.answer()
            if self._splicer is not None and answer is not None:
                self._splicer.remember(answer)

    def complete(self, prompt: str | Sequence[int], request: ChatRequest, remaining_ms: RemainingMs) -> Iterator[Event]:
        """Continue a text, or tokens, without the template.  The request says how: it has no messages and no tools.

        Raises what ``chat`` raises.
        """
        with self._exclusive(remaining_ms):
            ids = self.tokenize(prompt) if isinstance(prompt, str) else self._checked(prompt)
            yield from self._generate(request, self._prompter.plain(ids), remaining_ms)

    def idle(self, within_ms: float) -> None:
        """Use the time between two requests: store base snapshots that are not stored yet.

        A file that would take longer than this is given up.  Returns at once while a request is being answered.
        """
        until_s = time.monotonic() + within_ms / 1e3
        while self._snapshots is not None and time.monotonic() < until_s:
            if not self._turn.acquire(blocking=False):
                return
            try:
                cache = self.evaluation.cache
                write = self._snapshots.next_write(cache.entries, cache.budget_bytes - cache.bytes_held)
            finally:
                self._turn.release()
            if write is None:
                return
            self._snapshots.write(write, until_s)

    def tokenize(self, text: str, *, specials: bool = True) -> list[int]:
        """The tokens of a text; with ``specials``, what spells a special token is one.  Raises TextTooLong."""
        check_length(text, self.context)
        return self.tokenizer.encode_with_specials(text) if specials else self.tokenizer.encode(text)

    def token_bytes(self, token: int) -> bytes:
        """What a token prints."""
        return self.tokenizer.decode_bytes(token)

    def render(self, request: ChatRequest) -> Rendered:
        """The prompt of a conversation before earlier tool calls are spliced in.  Raises InvalidPrompt."""
        return self._prompter.render(request)

    def _generate(
        self, request: ChatRequest, prompt: Prompt, remaining_ms: RemainingMs
    ) -> Generator[Event, None, Generation]:
        generation = Generation(request, prompt, self._grammars, self.context - len(prompt.ids))
        logits = yield from self.evaluation.prefill(prompt, remaining_ms)
        yield from generation.run(self.evaluation, logits, remaining_ms)
        return generation

    def _checked(self, ids: Sequence[int]) -> Sequence[int]:
        last = self.tokenizer.n_real - 1
        for id_ in ids:
            if not 0 <= id_ <= last:
                raise InvalidPrompt(f"the prompt has the token {id_}, expected 0 to {last}", "prompt")
        return ids

    @contextmanager
    def _exclusive(self, remaining_ms: RemainingMs) -> Iterator[None]:
        patience_s = min(max(0.0, remaining_ms() / 1e3), threading.TIMEOUT_MAX)
        if not self._turn.acquire(timeout=patience_s):
            raise Busy("another request holds the model until after this one's deadline")
        try:
            self._file.check_unchanged()
            yield
        finally:
            self.evaluation.cache.finished()
            self._turn.release()
