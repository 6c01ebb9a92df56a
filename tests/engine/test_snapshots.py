"""Stored base snapshots: found by another process, never used when anything about them is wrong."""

from __future__ import annotations

import os
import shutil
import struct
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from stored import LONG_MS, Notes, answer, ask, load, logits_of, new_process

from engine import snapshot_stores
from engine.snapshot_file import FORMAT_VERSION, longest_prefix, position_of, snapshot_name
from engine.snapshots import SnapshotPlaces
from make_synth import SHAPES, write_model


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path, replace(SHAPES["tinyg"], n_vocab=8192), "q4_k_m", seed=5)
    return str(path)


@pytest.fixture(scope="module")
def filled(path, tmp_path_factory):
    """A directory with the two snapshots of one request."""
    folder = tmp_path_factory.mktemp("filled")
    engine = load(path, SnapshotPlaces(directory=str(folder)))
    answer(engine, ask("One?"))
    engine.idle(LONG_MS)
    assert len(list(folder.iterdir())) == 2
    return folder


@pytest.fixture(scope="module")
def cold(path):
    """What an engine without stores says to another question."""
    return answer(load(path), ask("Two?"))


@pytest.fixture
def folder(filled, tmp_path):
    """A copy of the filled directory that a test may spoil."""
    return shutil.copytree(filled, tmp_path / "snapshots")


def longest(folder):
    return max(folder.iterdir(), key=lambda file: position_of(file.name))


def test_a_new_process_starts_after_the_system_block_that_another_one_stored(path, filled, cold):
    base = position_of(longest(filled).name)
    for where in ({"directory": str(filled)}, {"baked": str(filled)}):
        other = new_process(path, "Two?", **where)
        assert other["path"] == ("snapshot_tmp" if "directory" in where else "snapshot_baked")
        assert (other["restored_at"], other["prefilled"]) == (base, cold[0].prompt_tokens - base)
        assert other["said"] == cold[1]


def test_logits_after_a_stored_base_are_those_of_a_cold_engine_bit_for_bit(path, filled):
    request = ask("A question that was not asked before?")
    warm = load(path, SnapshotPlaces(directory=str(filled)))
    assert np.array_equal(logits_of(warm, request), logits_of(load(path), request))
    assert warm.evaluation.session.counters.prefill_tokens < 30


def test_another_system_text_starts_after_the_stored_tools(path, filled):
    prefilled, said = answer(load(path, SnapshotPlaces(baked=str(filled))), ask("Two?", system="Be verbose."))
    tools = min(position_of(file.name) for file in filled.iterdir())
    assert (prefilled.path, prefilled.restored_at) == ("snapshot_baked", tools)
    assert said == answer(load(path), ask("Two?", system="Be verbose."))[1]


def test_a_stored_state_is_a_base_in_memory_from_its_first_use_on(path, filled):
    notes = Notes()
    engine = load(path, SnapshotPlaces(directory=str(filled)), notes)
    paths = [answer(engine, ask(text))[0].path for text in ("Two?", "Three?")]
    assert paths == ["snapshot_tmp", "base"]
    assert len(notes.of("snapshot_read")) == 1


def test_what_is_stored_already_is_not_written_again(path, folder):
    before = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    notes = Notes()
    engine = load(path, SnapshotPlaces(directory=str(folder)), notes)
    answer(engine, ask("Two?"))
    engine.idle(LONG_MS)
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == before
    assert notes.of("snapshot_written") == []


def test_what_is_baked_into_the_image_is_not_written_elsewhere(path, filled, tmp_path):
    engine = load(path, SnapshotPlaces(baked=str(filled), directory=str(tmp_path / "tmp")))
    answer(engine, ask("Two?"))
    engine.idle(LONG_MS)
    assert not (tmp_path / "tmp").exists()


def flip(data, at):
    data[at] ^= 0x40


DAMAGE = {
    "empty": (lambda d: d.clear(), "has 0 bytes"),
    "one byte short": (lambda d: d.pop(), "bytes, expected"),
    "one byte long": (lambda d: d.append(0), "bytes, expected"),
    "another magic": (lambda d: flip(d, 0), "not a snapshot file"),
    "another version": (lambda d: struct.pack_into("<I", d, 8, FORMAT_VERSION + 1), "its format is"),
    "more tokens": (lambda d: flip(d, 12), "bytes, expected"),
    "exact arithmetic": (lambda d: struct.pack_into("<I", d, 16, 1), "exact arithmetic was 1, expected 0"),
    "another state size": (lambda d: flip(d, 24), "its state has"),
    "another model": (lambda d: flip(d, 48), "its model is"),
    "another token": (lambda d: flip(d, 80), "checksum is wrong"),
    "another state": (lambda d: flip(d, 5000), "checksum is wrong"),
    "another checksum": (lambda d: flip(d, len(d) - 1), "checksum is wrong"),
    "zeros": (lambda d: d.__setitem__(slice(None), bytes(len(d))), "not a snapshot file"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_ignored_with_one_note_and_replaced_after_the_answer(path, folder, cold, damage):
    spoil, said = DAMAGE[damage]
    file = longest(folder)
    whole = file.read_bytes()
    data = bytearray(whole)
    spoil(data)
    file.write_bytes(data)
    notes = Notes()
    engine = load(path, SnapshotPlaces(directory=str(folder)), notes)
    prefilled, words = answer(engine, ask("Two?"))
    assert prefilled.restored_at < position_of(file.name)
    assert words == cold[1]
    assert [fact["name"] for fact in notes.of("snapshot_ignored")] == [file.name]
    assert said in str(notes.of("snapshot_ignored")[0]["reason"])
    engine.idle(LONG_MS)
    assert file.read_bytes() == whole


def test_a_file_of_other_tokens_under_the_right_name_is_not_used(path, folder, cold):
    other = load(path, SnapshotPlaces(directory=str(folder)))
    answer(other, ask("One?", system="Answer in two short sentences."))
    other.idle(LONG_MS)
    files = sorted(folder.iterdir(), key=lambda file: position_of(file.name))
    same_length = [file for file in files if position_of(file.name) == position_of(files[-1].name)]
    assert len(same_length) == 2
    wanted = next(file for file in same_length if file.name == snapshot_name_of(path))
    wanted.write_bytes(next(file for file in same_length if file != wanted).read_bytes())
    notes = Notes()
    prefilled, words = answer(load(path, SnapshotPlaces(directory=str(folder)), notes), ask("Two?"))
    assert "not those its name says" in str(notes.of("snapshot_ignored")[0]["reason"])
    assert (prefilled.restored_at, words) == (position_of(files[0].name), cold[1])


def snapshot_name_of(path):
    engine = load(path)
    rendered = engine.render(ask("Two?"))
    return snapshot_name(engine.fingerprint, np.array(rendered.ids[: rendered.base_end], np.int32))


def test_files_of_another_model_or_with_other_names_are_not_even_opened(path, filled, tmp_path, cold):
    for number, file in enumerate(filled.iterdir()):
        shutil.copy(file, tmp_path / f"{'0' * 16}{file.name[16:]}")
        shutil.copy(file, tmp_path / file.name.replace(f"-v{FORMAT_VERSION}-", f"-v{FORMAT_VERSION + 1}-"))
        shutil.copy(file, tmp_path / f"notes{number}.txt")
    (tmp_path / f"{next(filled.iterdir()).name}").mkdir()
    notes = Notes()
    prefilled, words = answer(load(path, SnapshotPlaces(baked=str(tmp_path)), notes), ask("Two?"))
    assert (prefilled.path, words, notes.said) == ("full", cold[1], [])


def test_a_cap_drops_the_oldest_files(path, tmp_path):
    notes = Notes()
    engine = load(path, SnapshotPlaces(directory=str(tmp_path)), notes)
    for number in range(4):
        answer(engine, ask("One?", system=f"Text {number}.", tools=()))
        engine.idle(LONG_MS)
        time.sleep(0.01)
    first, *_ = sorted(tmp_path.iterdir(), key=lambda file: file.stat().st_mtime_ns)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    capped = load(path, SnapshotPlaces(directory=str(tmp_path), max_bytes=size))
    answer(capped, ask("One?", system="Text 5.", tools=()))
    capped.idle(LONG_MS)
    assert not first.exists()
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("cause", ["cap", "disk", "folder"])
def test_a_store_that_takes_nothing_is_one_note_and_no_failure(path, tmp_path, monkeypatch, cause):
    folder = tmp_path / "snapshots"
    max_bytes = 1 if cause == "cap" else 1 << 30
    if cause == "disk":
        monkeypatch.setattr(snapshot_stores.shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    if cause == "folder":
        folder.write_text("a file where the directory should be")
    notes = Notes()
    engine = load(path, SnapshotPlaces(directory=str(folder), max_bytes=max_bytes), notes)
    for text in ("One?", "Two?"):
        answer(engine, ask(text, tools=()))
        engine.idle(LONG_MS)
    (failed,) = notes.of("snapshot_store_failed")
    expected = {"cap": "are allowed", "disk": "1.0 MB are free on the disk", "folder": "FileExistsError"}
    assert expected[cause] in str(failed["reason"])
    assert folder.is_file() or list(folder.iterdir()) == []


def test_a_write_out_of_time_leaves_nothing_behind(path, tmp_path, monkeypatch):
    notes = Notes()
    engine = load(path, SnapshotPlaces(directory=str(tmp_path)), notes)
    answer(engine, ask("One?", tools=()))
    engine.idle(0)
    assert notes.said == []
    times = iter([0.0, 0.0, 0.0, 0.0, 100.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(times, 100.0))
    engine.idle(1000)
    assert "no time to write" in str(notes.of("snapshot_store_failed")[0]["reason"])
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_half_written_is_removed(path, tmp_path):
    abandoned, fresh = tmp_path / ".x.partial", tmp_path / ".y.partial"
    for file in (abandoned, fresh):
        file.write_bytes(b"half")
    os.utime(abandoned, (time.time() - 3600,) * 2)
    engine = load(path, SnapshotPlaces(directory=str(tmp_path)))
    answer(engine, ask("One?"))
    engine.idle(LONG_MS)
    assert not abandoned.exists() and fresh.exists()


def test_two_engines_that_write_at_once_leave_whole_files(path, tmp_path, cold):
    engines = [load(path, SnapshotPlaces(directory=str(tmp_path)), threads=1) for _ in range(3)]
    for engine in engines:
        answer(engine, ask("One?"))
    threads = [threading.Thread(target=engine.idle, args=(LONG_MS,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(list(tmp_path.iterdir())) == 2
    notes = Notes()
    prefilled, words = answer(load(path, SnapshotPlaces(directory=str(tmp_path)), notes), ask("Two?"))
    assert (prefilled.path, words, notes.of("snapshot_ignored")) == ("snapshot_tmp", cold[1], [])


def test_nothing_is_written_while_a_request_is_answered(path, tmp_path):
    engine = load(path, SnapshotPlaces(directory=str(tmp_path)))
    running = engine.chat(ask("One?"), lambda: 1e9)
    next(running)
    engine.idle(LONG_MS)
    assert list(tmp_path.iterdir()) == []
    list(running)
    engine.idle(LONG_MS)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_cache_too_small_for_a_stored_state_reads_none(path, filled, cold):
    notes = Notes()
    engine = load(path, SnapshotPlaces(baked=str(filled)), notes, cache_bytes=1 << 20)
    assert answer(engine, ask("Two?"))[1] == cold[1]
    assert notes.said == []
    assert engine.evaluation.cache.bytes_held <= 1 << 20


def test_the_longest_name_whose_hash_fits_is_found():
    ids = np.arange(100, dtype=np.int32)
    other = ids.copy()
    other[40] = 7
    names = {snapshot_name("ab" * 16, part) for part in (ids[:10], ids[:30], other[:60], ids)}
    assert position_of(longest_prefix("ab" * 16, names, ids[:99], 0)) == 30
    assert position_of(longest_prefix("ab" * 16, names, ids, 0)) == 100
    assert longest_prefix("ab" * 16, names, ids[:99], 30) is None
    assert longest_prefix("cd" * 16, names, ids, 0) is None
