"""How much of everything a request may have, in one place.  More is refused, in words, before the engine sees it.

A text has no limit of its own: the context decides (see engine/tokenizer.py), and those of a schema are the engine's
(engine/grammar_schema.py).  SECURITY.md shows them all.
"""

from __future__ import annotations

MAX_BODY_BYTES = 6 * 1024 * 1024  # what Lambda itself lets in
MAX_DEPTH = 100  # arrays and objects in one another
MAX_VALUES = 500_000  # of JSON, in one body

MAX_MESSAGES = 4096
MAX_PARTS = 1024  # of one message's content
MAX_CALLS = 128  # of one message
MAX_ID_CHARS = 4096  # of a call: some clients keep state of their own in it
MAX_TOOLS = 128
MAX_NAME_CHARS = 128  # of a tool
MAX_DESCRIPTION_CHARS = 32_768  # of a tool

MAX_MODEL_CHARS = 256
MAX_STOPS = 16
MAX_STOP_CHARS = 256
MAX_BIASES = 1024
MAX_TEMPLATE_ARGUMENTS = 64
MAX_METADATA = 16  # OpenAI's own, as the next two
MAX_METADATA_KEY_CHARS = 64
MAX_METADATA_CHARS = 512
MAX_COUNT = 2**63 - 1  # of whatever is counted
