"""One model that answers conversations, one at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from engine.chat_template import ChatTemplate
from engine.errors import Busy
from engine.evaluation import Evaluation, RemainingMs
from engine.events import Event
from engine.generation import Generation
from engine.memory import machine_memory, plan_memory
from engine.model_file import ModelFile
from engine.native import Model
from engine.prompt import Prompter
from engine.request import ChatRequest
from engine.splice import Splicer
from engine.threads import default_thread_count
from engine.tokenizer import Tokenizer


class Engine:
    """A model with its vocabulary, its template, its live session and the snapshots of earlier ones."""

    def __init__(self, file: ModelFile, model: Model, *, context: int, cache_bytes: int, splice: bool) -> None:
        self._file = file
        self.tokenizer = Tokenizer(file)
        self.template = ChatTemplate(file.chat_template, self.tokenizer, file.path)
        never = np.flatnonzero(~self.tokenizer.sampleable).astype(np.int32)
        self.evaluation = Evaluation(model, context, cache_bytes, never)
        self._splicer = Splicer(self.tokenizer) if splice else None
        self._prompter = Prompter(self.template, self._splicer, context)
        self._turn = threading.Lock()
        self.context = context
        self.cache_bytes = cache_bytes
        self.model_name = file.name
        self.isa = model.isa
        self.load_ms = 0.0

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
    ) -> Engine:
        """Map a model file and make it ready.  None means: find out, or choose.

        Raises ModelFileError, OutOfMemory or UnsupportedCpu, each with one sentence.
        """
        started = time.perf_counter()
        file = ModelFile(path)
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
        engine = cls(file, model, context=plan.context, cache_bytes=plan.cache_bytes, splice=splice)
        engine.load_ms = (time.perf_counter() - started) * 1e3
        return engine

    @property
    def fingerprint(self) -> str:
        """Identifies the weights and the vocabulary."""
        return self._file.fingerprint

    def chat(self, request: ChatRequest, remaining_ms: RemainingMs) -> Iterator[Event]:
        """Answer a conversation.  ``remaining_ms`` is asked again and again; at 0 the answer ends.

        Raises InvalidPrompt, ContextFull, OutOfTime or Busy before the first event, and NumericFault at any time.
        Closing the iterator stops the work and leaves the engine ready for the next request.
        """
        with self._exclusive(remaining_ms):
            prompt = self._prompter.prompt(request)
            generation = Generation(request, prompt, self.tokenizer, self.context - len(prompt.ids))
            logits = yield from self.evaluation.prefill(prompt, remaining_ms)
            yield from generation.run(self.evaluation, logits, remaining_ms)
            answer = generation.answer()
            if self._splicer is not None and answer is not None:
                self._splicer.remember(answer)

    @contextmanager
    def _exclusive(self, remaining_ms: RemainingMs) -> Iterator[None]:
        patience_s = min(max(0.0, remaining_ms() / 1e3), threading.TIMEOUT_MAX)
        if not self._turn.acquire(timeout=patience_s):
            raise Busy("another request holds the model until after this one's deadline")
        try:
            yield
        finally:
            self.evaluation.cache.finished()
            self._turn.release()
