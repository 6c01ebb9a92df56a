"""Snapshots made at build time: a function that starts from them says what it would have said without."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from gguf_builder import TEMPLATE
from stored import SYSTEM, TOOLS, answer, ask, load, logits_of, new_process

import make_synth
from engine.__main__ import main
from engine.snapshot_file import position_of
from engine.snapshots import SnapshotPlaces
from make_synth import SHAPES


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    make_synth.write_model(path, replace(SHAPES["tinyg"], n_vocab=8192), "q4_k_m", seed=5)
    return str(path)


@pytest.fixture
def sources(tmp_path):
    """The system text as an editor leaves it, the tools as a request has them, and a request with both."""
    tool = {**TOOLS[0]["function"], "strict": True, "description": None}
    (tmp_path / "system.txt").write_text(SYSTEM + "\n")
    (tmp_path / "tools.json").write_text(json.dumps([{"type": "function", "function": tool}]))
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Anything."}]
    body = {"messages": messages, "tools": [{"type": "function", "function": tool}]}
    (tmp_path / "event.json").write_text(json.dumps({"version": "2.0", "body": json.dumps(body)}))
    return tmp_path


def bake(path, sources, *options):
    out = sources / "baked"
    status = main(["bake", path, "--context", "1024", "--threads", "2", "--out", str(out), *options])
    return status, sorted(out.glob("*")) if out.exists() else []


def test_baked_equals_cold_bit_for_bit(path, sources, capsys):
    status, files = bake(path, sources, "--system", str(sources / "system.txt"), "--tools", str(sources / "tools.json"))
    assert (status, len(files)) == (0, 2)
    assert all(str(file) in capsys.readouterr().out for file in files[:1])
    request = ask("How high is it?")
    warm, cold = load(path, SnapshotPlaces(baked=str(sources / "baked"))), load(path)
    assert np.array_equal(logits_of(warm, request), logits_of(cold, request))
    base = max(position_of(file.name) for file in files)
    n_prompt = cold.evaluation.session.counters.prefill_tokens
    assert warm.evaluation.session.counters.prefill_tokens == n_prompt - base


def test_a_new_process_starts_from_what_was_baked(path, sources):
    _, files = bake(path, sources, "--request", str(sources / "event.json"))
    cold, said = answer(load(path), ask("Two?"))
    other = new_process(path, "Two?", baked=str(sources / "baked"))
    assert (other["path"], other["said"]) == ("snapshot_baked", said)
    assert other["prefilled"] == cold.prompt_tokens - max(position_of(file.name) for file in files)


def test_a_live_engine_and_bake_write_the_same_files(path, sources):
    _, baked = bake(path, sources, "--request", str(sources / "event.json"))
    engine = load(path, SnapshotPlaces(directory=str(sources / "live")))
    answer(engine, ask("Two?"))
    engine.idle(60_000)
    live = sorted((sources / "live").iterdir())
    assert [(file.name, file.read_bytes()) for file in live] == [(file.name, file.read_bytes()) for file in baked]


def test_a_system_text_alone_makes_one_file_that_others_can_read(path, sources):
    status, files = bake(path, sources, "--system", str(sources / "system.txt"), "--thinking", "off")
    assert (status, len(files)) == (0, 1)
    assert files[0].stat().st_mode & 0o444 == 0o444
    prefilled, _ = answer(load(path, SnapshotPlaces(baked=str(files[0].parent))), ask("Two?", tools=()))
    assert prefilled.path == "snapshot_baked"


def test_baking_again_leaves_the_same_files(path, sources):
    _, before = bake(path, sources, "--system", str(sources / "system.txt"))
    contents = [file.read_bytes() for file in before]
    status, after = bake(path, sources, "--system", str(sources / "system.txt"))
    assert (status, after, [file.read_bytes() for file in after]) == (0, before, contents)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "there is nothing to bake"),
        (["--request", "{}/event.json", "--system", "{}/system.txt"], "leave out --system and --tools"),
        (["--tools", "{}/system.txt"], "is not a JSON list of tools"),
        (["--request", "{}/tools.json"], "is not a recorded chat request"),
        (["--system", "{}/nowhere.txt"], "No such file"),
    ],
)
def test_what_cannot_be_baked_is_said_in_one_line(path, sources, capsys, options, said):
    status, files = bake(path, sources, *(option.format(sources) for option in options))
    err = capsys.readouterr().err
    assert (status, files) == (1, [])
    assert said in err and err.count("\n") == 1


def test_a_request_without_a_system_block_is_refused(path, sources, capsys):
    (sources / "plain.json").write_text(json.dumps({"messages": [{"role": "user", "content": "Hi"}]}))
    assert bake(path, sources, "--request", str(sources / "plain.json"))[0] == 1
    assert "there is no system text and no tools in it" in capsys.readouterr().err


def test_a_template_whose_system_block_depends_on_the_user_is_refused(sources, capsys, monkeypatch):
    template = sources / "template.jinja"
    template.write_text("{{- messages[-1].content }}" + TEMPLATE)
    monkeypatch.setattr(make_synth, "TEMPLATE", template)
    model = sources / "other.gguf"
    make_synth.write_model(model, replace(SHAPES["tinyg"], n_vocab=8192), "q4_k_m", seed=5)
    status, files = bake(str(model), sources, "--system", str(sources / "system.txt"))
    assert (status, files) == (1, [])
    assert "the chat template has no place after the system block" in capsys.readouterr().err
