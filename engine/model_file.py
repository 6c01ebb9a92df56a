"""A Qwen3.5 model file: what the architecture and the text side need to know, checked at load.

The container is gguf_reader's business.  Tensor shapes are checked by the C engine, which knows
what it multiplies; everything the keys say is checked here.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import NoReturn

from engine.errors import ModelFileError
from engine.gguf_reader import (
    BOOL,
    FLOAT32,
    INT32,
    STRING,
    UINT32,
    VALUE_TYPES,
    Array,
    GgufReader,
    Scalar,
    Tensor,
)
from engine.page_in import PageIn

ARCHITECTURE = "qwen35"
_SPECIAL_IDS = ("bos", "eos", "eot", "padding")
_FINGERPRINT_TENSORS = 16
_FINGERPRINT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model's sizes.  Names are those of qw_config in native/include/qwarm.h."""

    n_layers: int  # without MTP blocks
    n_vocab: int  # rows of token_embd.weight: the vocabulary and its padding
    n_hidden: int
    n_ffn: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    rotary_dims: int
    n_key_heads: int
    n_value_heads: int
    delta_head_dim: int
    conv_kernel: int
    rms_eps: float
    rope_base: float
    recurrent_layers: tuple[bool, ...]
    context_length: int  # trained
    tied: bool  # token_embd.weight is also the output matrix


class ModelFile:
    """A mapped model file.  The mapping lives until ``close()``; tensors are offsets into ``buffer``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._reader = GgufReader(path)
        self.path = self._reader.path
        self.size = self._reader.size
        self.buffer = self._reader.buffer
        self.metadata: MappingProxyType[str, Scalar] = MappingProxyType(self._reader.metadata)
        self.tensors: MappingProxyType[str, Tensor] = MappingProxyType(self._reader.tensors)
        try:
            self._check_architecture()
            self.config = self._read_config()
            self.n_tokens = self._check_vocabulary()
            self.special_ids = self._read_special_ids()
            self.chat_template = self._text("tokenizer.chat_template")
        except ModelFileError:
            self._reader.arrays.clear()
            self.close()
            raise

    @property
    def name(self) -> str:
        """The model's name, or the file's if it has none."""
        return str(self.metadata.get("general.name") or Path(self.path).name)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies these weights and this vocabulary: the header, the size and samples of the tensors."""
        digest = hashlib.blake2b(self.size.to_bytes(8, "little"), digest_size=16)
        digest.update(self.buffer[: self._reader.header_bytes])
        tensors = list(self.tensors.values())
        for tensor in tensors[:: max(1, len(tensors) // _FINGERPRINT_TENSORS)]:
            middle = tensor.offset + tensor.n_bytes // 2
            digest.update(self.buffer[middle : min(middle + _FINGERPRINT_BYTES, tensor.offset + tensor.n_bytes)])
        return digest.hexdigest()

    def array(self, key: str) -> Array:
        """The array stored under key, still in the file."""
        if key not in self._reader.arrays:
            self.refuse(f"key {key} is {'not an array' if key in self.metadata else 'missing'}, expected an array")
        return self._reader.arrays[key]

    def refuse(self, reason: str) -> NoReturn:
        """Raise ModelFileError for this file."""
        self._reader.refuse(reason)

    def read_ahead(self) -> PageIn:
        """Begin to bring the weights into memory."""
        return PageIn(self._reader.fileno(), self.tensors)

    def check_unchanged(self) -> None:
        """Raise ModelChanged if the file was written to since it was mapped."""
        self._reader.check_unchanged()

    def close(self) -> None:
        """Unmap the file.  BufferError if something still points into ``buffer``."""
        self._reader.close()

    def __enter__(self) -> ModelFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _scalar(self, key: str, value_type: int) -> Scalar:
        found = self._reader.value_types.get(key)
        if found is None:
            self.refuse(f"key {key} is missing")
        if found != value_type:
            self.refuse(f"key {key} is {VALUE_TYPES[found]}, expected {VALUE_TYPES[value_type]}")
        return self.metadata[key]

    def _size(self, key: str) -> int:
        value = int(self._scalar(f"{ARCHITECTURE}.{key}", UINT32))
        if not 1 <= value < 1 << 31:
            self.refuse(f"key {ARCHITECTURE}.{key} is {value}, expected 1 to 2^31 - 1")
        return value

    def _positive(self, key: str) -> float:
        value = float(self._scalar(f"{ARCHITECTURE}.{key}", FLOAT32))
        if not (math.isfinite(value) and value > 0):
            self.refuse(f"key {ARCHITECTURE}.{key} is {value}, expected a positive number")
        return value

    def _text(self, key: str) -> str:
        return str(self._scalar(key, STRING))

    def _check_architecture(self) -> None:
        found = self._text("general.architecture")
        if found != ARCHITECTURE:
            kind = " (a mixture of experts)" if "moe" in found else ""
            self.refuse(f"architecture {found}{kind}, this engine runs {ARCHITECTURE}")
        n_parts = self.metadata.get("split.count", 1)
        if n_parts != 1:
            self.refuse(f"one of {n_parts} parts of a split model (split.count), expected one file")
        for key in self._reader.value_types:
            if key.startswith(f"{ARCHITECTURE}.rope.scaling."):
                self.refuse(f"key {key} asks for rope scaling, which this engine does not do")

    def _read_config(self) -> ModelConfig:
        n_layers = self._count_layers()
        head_dim, value_length = self._size("attention.key_length"), self._size("attention.value_length")
        if head_dim != value_length:
            self.refuse(f"attention.key_length is {head_dim}, expected attention.value_length, {value_length}")
        conv_kernel = self._size("ssm.conv_kernel")
        if conv_kernel != 4:
            self.refuse(f"key {ARCHITECTURE}.ssm.conv_kernel is {conv_kernel}, expected 4")
        n_value_heads, delta_head_dim = self._size("ssm.time_step_rank"), self._size("ssm.state_size")
        inner_size = self._size("ssm.inner_size")
        if inner_size != n_value_heads * delta_head_dim:
            self.refuse(
                f"key {ARCHITECTURE}.ssm.inner_size is {inner_size}, expected time_step_rank x state_size "
                f"= {n_value_heads * delta_head_dim}"
            )
        return ModelConfig(
            n_layers=n_layers,
            n_vocab=self._count_rows(),
            n_hidden=self._size("embedding_length"),
            n_ffn=self._size("feed_forward_length"),
            n_heads=self._size("attention.head_count"),
            n_kv_heads=self._size("attention.head_count_kv"),
            head_dim=head_dim,
            rotary_dims=self._size("rope.dimension_count"),
            n_key_heads=self._size("ssm.group_count"),
            n_value_heads=n_value_heads,
            delta_head_dim=delta_head_dim,
            conv_kernel=conv_kernel,
            rms_eps=self._positive("attention.layer_norm_rms_epsilon"),
            rope_base=self._positive("rope.freq_base"),
            recurrent_layers=self._layer_pattern(n_layers),
            context_length=self._size("context_length"),
            tied="output.weight" not in self.tensors,
        )

    def _count_layers(self) -> int:
        """Blocks of the trunk.  block_count includes the MTP blocks, which come last and are not run."""
        n_blocks = self._size("block_count")
        key = f"{ARCHITECTURE}.nextn_predict_layers"
        n_mtp = int(self._scalar(key, UINT32)) if key in self._reader.value_types else 0
        if n_mtp >= n_blocks:
            self.refuse(f"key {key} is {n_mtp}, expected less than block_count, which is {n_blocks}")
        n_layers = n_blocks - n_mtp
        if n_layers > len(self.tensors):
            self.refuse(f"{n_layers} layers declared, the file has {len(self.tensors)} tensors")
        return n_layers

    def _count_rows(self) -> int:
        embedding = self.tensors.get("token_embd.weight")
        if embedding is None:
            self.refuse("tensor token_embd.weight is missing")
        if len(embedding.dims) != 2:
            self.refuse(f"tensor token_embd.weight has {len(embedding.dims)} dimensions, expected 2")
        return embedding.dims[1]

    def _layer_pattern(self, n_layers: int) -> tuple[bool, ...]:
        key = f"{ARCHITECTURE}.attention.recurrent_layers"
        if key in self._reader.value_types:
            array = self.array(key)
            if array.type != BOOL or array.count < n_layers:
                self.refuse(f"key {key} is {array.type_name}[{array.count}], expected bool[] for {n_layers} layers")
            return tuple(bool(flag) for flag in array.numbers()[:n_layers])
        interval_key = f"{ARCHITECTURE}.full_attention_interval"
        interval = self._size("full_attention_interval") if interval_key in self._reader.value_types else 4
        return tuple((layer + 1) % interval != 0 for layer in range(n_layers))

    def _check_vocabulary(self) -> int:
        tokens = self.array("tokenizer.ggml.tokens")
        for key, element_type in (("tokens", STRING), ("merges", STRING), ("token_type", INT32)):
            array = self.array(f"tokenizer.ggml.{key}")
            if array.type != element_type:
                expected = VALUE_TYPES[element_type]
                self.refuse(f"key tokenizer.ggml.{key} is an array of {array.type_name}, expected {expected}")
        n_types = self.array("tokenizer.ggml.token_type").count
        if n_types != tokens.count:
            self.refuse(f"key tokenizer.ggml.token_type has {n_types} elements, expected {tokens.count}, as tokens")
        if not 1 <= tokens.count <= self.config.n_vocab:
            self.refuse(
                f"key tokenizer.ggml.tokens has {tokens.count} tokens, expected 1 to {self.config.n_vocab}, "
                "the rows of token_embd.weight"
            )
        return tokens.count

    def _read_special_ids(self) -> MappingProxyType[str, int]:
        ids = {}
        for name in _SPECIAL_IDS:
            key = f"tokenizer.ggml.{name}_token_id"
            if key not in self._reader.value_types:
                continue
            ids[name] = int(self._scalar(key, UINT32))
            if ids[name] >= self.n_tokens:
                self.refuse(f"key {key} is {ids[name]}, the vocabulary has tokens 0 to {self.n_tokens - 1}")
        return MappingProxyType(ids)
