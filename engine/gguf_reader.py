"""The GGUF container: keys, arrays and the tensor table of one memory-mapped file.

A file is hostile until checked: every length, count and offset is compared with the bytes that
are there before it is used.  Arrays stay in the file; a vocabulary of 248,320 strings is stepped
over once and read only by who asks for it.
"""

from __future__ import annotations

import math
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from engine.errors import ModelChanged, ModelFileError
from engine.weight_types import UNSUPPORTED_NAMES, WEIGHT_TYPES

Scalar = int | float | bool | str

UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 5, 6, 7, 8, 9, 10
VALUE_TYPES = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64")
_LAYOUTS = {number: struct.Struct("<" + code) for number, code in enumerate("BbHhIifB  Qqd") if code != " "}
_MAX_ENTRIES = 1 << 16  # keys, and tensors
_MAX_STRINGS = 1 << 22  # in one array
_MAX_KEY_BYTES = 65535
_MAX_TENSOR_NAME_BYTES = 64
_MAX_DIMS = 4
_MIN_ENTRY_BYTES = 8 + 1 + 4 + 1  # a key of one byte with a value of one byte


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of the tensor table.  ``dims`` are fastest first, ``offset`` counts from the file's start."""

    name: str
    type: int
    type_name: str
    dims: tuple[int, ...]
    offset: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class Array:
    """An array value, still in the file."""

    type: int
    count: int
    offset: int  # of its first element
    end: int
    buffer: memoryview

    @property
    def type_name(self) -> str:
        return VALUE_TYPES[self.type]

    def joined(self) -> bytes:
        """The elements of a string array in a row, each behind a NUL."""
        data = np.frombuffer(self.buffer, np.uint8, self.end - self.offset, self.offset)
        lengths = np.fromiter(self._length_positions(), np.int64, self.count)
        kept = np.ones(len(data), bool)
        for byte in range(7):  # of a length; the eighth, its highest, is 0 and stays
            kept[lengths + byte] = False
        return data[kept].tobytes()

    def _length_positions(self) -> Iterator[int]:
        """Where each string's length stands, counted from the first."""
        data = bytes(self.buffer[self.offset : self.end])
        unpack, position = _LAYOUTS[UINT64].unpack_from, 0
        for _ in repeat(None, self.count):
            yield position
            position += 8 + unpack(data, position)[0]

    def numbers(self) -> NDArray[np.generic]:
        """The elements of a number array, as a copy."""
        return np.frombuffer(self.buffer, _LAYOUTS[self.type].format, self.count, self.offset).copy()


class GgufReader:
    """The checked contents of one GGUF version 3 file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            with ExitStack() as opened:
                self._file = opened.enter_context(Path(path).open("rb"))
                self._stamp = self._read_stamp()
                self.size = self._stamp[0]
                if self.size < 24:
                    self.refuse(f"the file has {self.size} bytes, a GGUF header alone has 24")
                self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
                opened.pop_all()
        except OSError as error:
            raise ModelFileError(f"{self.path}: cannot be read: {error.strerror}") from error
        self.buffer = memoryview(self._map)
        self.metadata: dict[str, Scalar] = {}
        self.value_types: dict[str, int] = {}
        self.arrays: dict[str, Array] = {}
        self.tensors: dict[str, Tensor] = {}
        try:
            self._parse()
        except ModelFileError:
            self.arrays.clear()
            self.close()
            raise

    def close(self) -> None:
        """Unmap the file.  BufferError if someone still holds a view of it."""
        self.buffer.release()
        self._map.close()
        self._file.close()

    def fileno(self) -> int:
        """The open file's descriptor, for whom the mapping does not serve."""
        return self._file.fileno()

    def check_unchanged(self) -> None:
        """Refuse a file that was written to since it was opened.  One that took its name is another file."""
        if self._read_stamp() != self._stamp:
            raise ModelChanged(f"{self.path}: the file has changed since it was loaded")

    def _read_stamp(self) -> tuple[int, int]:
        facts = os.fstat(self._file.fileno())
        return facts.st_size, facts.st_mtime_ns

    def refuse(self, reason: str) -> NoReturn:
        raise ModelFileError(f"{self.path}: {reason}")

    def _parse(self) -> None:
        self._position = 0
        magic = self._take(4, "magic")
        if magic != b"GGUF":
            self.refuse(f"begins with {magic!r}, a GGUF file begins with b'GGUF'")
        version = self._number(UINT32, "version")
        if version != 3:
            found = "3, big-endian" if version == 3 << 24 else version
            self.refuse(f"GGUF version {found}, expected 3, little-endian")
        n_tensors = int(self._number(UINT64, "tensor count"))
        n_keys = int(self._number(UINT64, "key count"))
        self._check_count(n_tensors, _MIN_ENTRY_BYTES, _MAX_ENTRIES, "tensors")
        self._check_count(n_keys, _MIN_ENTRY_BYTES, _MAX_ENTRIES, "keys")
        for _ in range(n_keys):
            self._read_key()
        self.alignment = self._check_alignment()
        table = [self._read_tensor_entry() for _ in range(n_tensors)]
        self.header_bytes = self._position
        data_start = self._aligned(self._position)
        for name, dims, type_number, offset in table:
            self.tensors[name] = self._check_tensor(name, dims, type_number, offset, data_start)

    def _take(self, n_bytes: int, what: str) -> bytes:
        end = self._position + n_bytes
        if end > self.size:
            self.refuse(f"{what} would end at byte {end}, the file has {self.size} bytes")
        taken = bytes(self.buffer[self._position : end])
        self._position = end
        return taken

    def _number(self, value_type: int, what: str) -> int | float:
        layout = _LAYOUTS[value_type]
        number: int | float = layout.unpack(self._take(layout.size, what))[0]
        return number

    def _string(self, what: str, limit: int | None = None) -> str:
        length = int(self._number(UINT64, f"length of {what}"))
        if limit is not None and not 1 <= length <= limit:
            self.refuse(f"{what} has a length of {length} bytes, expected 1 to {limit}")
        try:
            return self._take(length, what).decode()
        except UnicodeDecodeError as error:
            self.refuse(f"{what} is not UTF-8: {error.reason} at its byte {error.start}")

    def _check_count(self, count: int, least_bytes: int, limit: int, what: str) -> None:
        most = min(limit, (self.size - self._position) // least_bytes)
        if count > most:
            self.refuse(f"{count} {what} declared, expected at most {most} in a file of {self.size} bytes")

    def _read_key(self) -> None:
        key = self._string("a key's name", _MAX_KEY_BYTES)
        if key in self.metadata or key in self.arrays:
            self.refuse(f"key {key} appears twice")
        value_type = self._value_type(f"key {key}")
        if value_type == ARRAY:
            self.arrays[key] = self._read_array(key)
        elif value_type == STRING:
            self.metadata[key] = self._string(f"key {key}")
        else:
            number = self._number(value_type, f"key {key}")
            if value_type == BOOL and number not in (0, 1):
                self.refuse(f"key {key} is a bool of value {number}, expected 0 or 1")
            self.metadata[key] = bool(number) if value_type == BOOL else number
        self.value_types[key] = value_type

    def _value_type(self, what: str) -> int:
        value_type = int(self._number(UINT32, f"type of {what}"))
        if value_type >= len(VALUE_TYPES):
            self.refuse(f"{what} has value type {value_type}, expected 0 to {len(VALUE_TYPES) - 1}")
        return value_type

    def _read_array(self, key: str) -> Array:
        element_type = self._value_type(f"key {key}'s elements")
        if element_type == ARRAY:
            self.refuse(f"key {key} is an array of arrays, expected numbers or strings")
        count = int(self._number(UINT64, f"count of key {key}"))
        element_bytes = 8 if element_type == STRING else _LAYOUTS[element_type].size
        limit = _MAX_STRINGS if element_type == STRING else self.size
        self._check_count(count, element_bytes, limit, f"elements of key {key}")
        start = self._position
        if element_type == STRING:
            self._position = self._skip_strings(key, count)
        else:
            self._position += count * element_bytes
        return Array(element_type, count, start, self._position, self.buffer)

    def _skip_strings(self, key: str, count: int) -> int:
        position, data, unpack = self._position, self._map, _LAYOUTS[UINT64].unpack_from
        try:
            for _ in repeat(None, count):  # half a million steps in a real file: nothing else belongs here
                position += 8 + unpack(data, position)[0]
        except (struct.error, OverflowError, IndexError):
            position = self.size + 1
        if position > self.size:
            self.refuse(f"the strings of key {key} run past the end of the file, which has {self.size} bytes")
        return position

    def _check_alignment(self) -> int:
        key = "general.alignment"
        if key not in self.value_types:
            return 32
        if self.value_types[key] != UINT32:
            self.refuse(f"key {key} is {VALUE_TYPES[self.value_types[key]]}, expected u32")
        alignment = int(self.metadata[key])
        if alignment < 8 or alignment & (alignment - 1):
            self.refuse(f"key {key} is {alignment}, expected a power of two of at least 8")
        return alignment

    def _aligned(self, offset: int) -> int:
        return -(-offset // self.alignment) * self.alignment

    def _read_tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string("a tensor's name", _MAX_TENSOR_NAME_BYTES)
        n_dims = int(self._number(UINT32, f"dimension count of tensor {name}"))
        if not 1 <= n_dims <= _MAX_DIMS:
            self.refuse(f"tensor {name} has {n_dims} dimensions, expected 1 to {_MAX_DIMS}")
        dims = tuple(int(self._number(UINT64, f"dimensions of tensor {name}")) for _ in range(n_dims))
        type_number = int(self._number(UINT32, f"type of tensor {name}"))
        return name, dims, type_number, int(self._number(UINT64, f"offset of tensor {name}"))

    def _check_tensor(self, name: str, dims: tuple[int, ...], type_number: int, offset: int, data_start: int) -> Tensor:
        what, shape = f"tensor {name}", " x ".join(map(str, dims))
        if name in self.tensors:
            self.refuse(f"{what} appears twice")
        if type_number not in WEIGHT_TYPES:
            found = f"{UNSUPPORTED_NAMES.get(type_number, 'unknown')} (number {type_number})"
            known = ", ".join(kind.name for kind in WEIGHT_TYPES.values())
            self.refuse(f"{what} has type {found}, expected one of {known}")
        kind, n_values = WEIGHT_TYPES[type_number], math.prod(dims)
        if not 0 < n_values < 1 << 63:
            self.refuse(f"{what} has dimensions {shape}, expected a product from 1 to 2^63 - 1")
        if dims[0] % kind.block_values:
            self.refuse(f"{what} has rows of {dims[0]}, {kind.name} needs a multiple of {kind.block_values}")
        if offset % self.alignment:
            self.refuse(f"{what} has offset {offset}, expected a multiple of alignment {self.alignment}")
        start, n_bytes = data_start + offset, n_values // kind.block_values * kind.block_bytes
        end = self._aligned(start + n_bytes)
        if end > self.size:
            self.refuse(f"{what} ({kind.name}, {shape}) ends at byte {end}, the file has {self.size} bytes")
        return Tensor(name, type_number, kind.name, dims, start, n_bytes)
