"""What `python -m engine explain` says of recorded requests."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from gguf_builder import small_model

from engine.__main__ import main
from engine.chat_template import ChatTemplate
from engine.explain import Explainer
from engine.prompt import Prompter
from engine.recorded import chat_request, read_recorded
from engine.snapshot_file import snapshot_name
from engine.snapshot_stores import Folder
from handler.request import read_request
from make_synth import TEMPLATE

VECTORS = json.loads((Path(__file__).parents[1] / "fixtures" / "prefix_vectors.json").read_text())
REQUESTS = sorted((Path(__file__).parents[1] / "handler" / "requests").glob("*.json"))
SYSTEM = {"role": "system", "content": "Answer in one short sentence."}
USER = {"role": "user", "content": "How high is the Glomma?"}
SAID = {"role": "assistant", "content": "Two meters."}
NEXT = {"role": "user", "content": "And the Rhine?"}


def tool(name, **schema):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", **schema}}}


@pytest.fixture(scope="module")
def explainer(real):
    """Makes an explainer that has seen nothing."""

    def make(template=None, folders=()):
        chat = ChatTemplate(template or TEMPLATE.read_text(), real)
        return Explainer(real, Prompter(chat, None, 1 << 20), "ab" * 16, folders)

    return make


def pair(explainer, first, second):
    explainer.explain("first", chat_request(first))
    return explainer.explain("second", chat_request(second))


def bodies(vector):
    return [
        {"messages": vector[f"messages{n}"], "tools": vector["tools"], "chat_template_kwargs": vector[f"kwargs{n}"]}
        for n in (1, 2)
    ]


EXPECTED = {
    "chat_next_turn_off": ("anchor", "the template does not repeat the think block"),
    "chat_next_turn_on": ("anchor", "the template does not repeat the think block"),
    "tools_step_off": ("extend", "it goes on where the earlier answer ended"),
    "tools_step_on_reasoning_returned": ("extend", "it goes on where the earlier answer ended"),
    "tools_step_on_reasoning_lost": ("anchor", "came back without its reasoning"),
    "tools_then_next_user_off": ("base", "leaves the think blocks out of the turn that is over"),
    "regenerate": ("anchor", "it is the same prompt again"),
    "edit_last_user": ("base", "message 1 (user) is not the same"),
    "new_conversation_same_system": ("base", "it is another conversation"),
    "toggle_thinking": ("anchor", "thinking was switched on"),
    "bool_argument_lowercase": ("extend", "if that comes back as it was generated"),
}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_recorded_turn_pairs_are_explained(explainer, vector):
    path, why = EXPECTED[vector["name"]]
    second = pair(explainer(), *bodies(vector))
    assert second.path == path
    assert why in second.why
    assert second.prefilled == second.prompt_tokens - second.restored_at


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["name"])
def test_with_the_released_template_the_counts_are_the_recorded_ones(explainer, released_template, vector):
    second = pair(explainer(released_template), *bodies(vector))
    assert second.prompt_tokens == vector["n_prompt2"]
    assert second.shared == min(vector["lcp"], vector["n_prompt1"])
    if vector["name"] == "regenerate":
        assert second.prefilled == 0
    elif vector["name"] != "bool_argument_lowercase":  # what was generated there is not what the client returned
        assert second.prefilled == vector["reprefill_with_anchor"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"messages": [{**SYSTEM, "content": "Answer in one long sentence."}, USER]}, "from character 14 on: 'short"),
        ({"messages": [USER]}, "only the earlier prompt has a system text"),
        ({"tools": [tool("level"), tool("flow")]}, "flow is new"),
        ({"tools": []}, "level is gone"),
        ({"tools": [tool("level", properties={"river": {"type": "string"}})]}, "level is declared otherwise"),
        ({"messages": [SYSTEM, NEXT]}, "it is another conversation: message 1 (user)"),
        ({"messages": [SYSTEM, USER, SAID, {**NEXT, "content": "And?"}]}, "does not repeat the think block"),
    ],
)
def test_the_reason_names_what_changed(explainer, change, why):
    body = {"messages": [SYSTEM, USER], "tools": [tool("level")]}
    assert why in pair(explainer(), body, body | change).why


def test_tools_in_another_order_are_named(explainer):
    body = {"messages": [SYSTEM, USER], "tools": [tool("level"), tool("flow")]}
    assert "their order is another" in pair(explainer(), body, body | {"tools": body["tools"][::-1]}).why


def test_a_changed_message_in_the_middle_and_one_taken_back_are_named(explainer):
    body = {"messages": [SYSTEM, USER, SAID, NEXT]}
    changed = pair(explainer(), body, {"messages": [SYSTEM, USER, {**SAID, "content": "Three."}, NEXT]})
    assert "message 2 (assistant) was changed" in changed.why
    assert "message 3 (user) was changed" in pair(explainer(), body, {"messages": [SYSTEM, USER, SAID, USER]}).why
    assert (
        "message 2 (assistant) and what followed are gone" in pair(explainer(), body, {"messages": [SYSTEM, USER]}).why
    )


def test_a_conversation_that_was_left_is_found_again(explainer):
    explained = explainer()
    pair(explained, {"messages": [SYSTEM, USER]}, {"messages": [SYSTEM, NEXT]})
    back = explained.explain("back", chat_request({"messages": [SYSTEM, USER, SAID, NEXT]}))
    assert (back.path, back.like) == ("anchor", "first")


def test_the_text_on_both_sides_shows_special_tokens(explainer):
    second = pair(explainer(), {"messages": [SYSTEM, USER]}, {"messages": [SYSTEM, USER, SAID, NEXT]})
    assert second.shared_text.endswith("Glomma?<|im_end|>\n<|im_start|>assistant\n")
    assert second.had.startswith("<think>")
    assert second.got.startswith("Two meters.<|im_end|>")


def test_a_baked_snapshot_is_named(explainer, tmp_path):
    probe = explainer()
    request = chat_request({"messages": [SYSTEM, USER]})
    prompt, rendered = probe.prompter.prompt(request), probe.prompter.render(request)
    (tmp_path / snapshot_name("ab" * 16, prompt.ids[: rendered.base_end])).touch()
    first = explainer(folders=[Folder(tmp_path, "snapshot_baked")]).explain("first", request)
    assert (first.path, first.restored_at) == ("snapshot_baked", rendered.base_end)


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_recorded_requests_are_read_as_the_handler_reads_them(explainer, path):
    recorded = json.loads(path.read_text())
    body = recorded.get("body", recorded)
    body = json.loads(body) if isinstance(body, str) else body
    render = explainer().prompter.render
    ours, theirs = render(chat_request(body)), render(read_request(body).for_engine(splice=True))
    assert ours.ids == theirs.ids


# --- the command ---


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(small_model(TEMPLATE.read_text()).write(tmp_path_factory.mktemp("small")))


def event(folder, name, body, encoded=False):
    text = json.dumps(body)
    text = base64.b64encode(text.encode()).decode() if encoded else text
    path = folder / name
    path.write_text(json.dumps({"version": "2.0", "body": text, "isBase64Encoded": encoded}))
    return str(path)


def test_the_command_reads_events_and_bare_bodies_and_says_what_is_shared(model, tmp_path, capsys):
    first = event(tmp_path, "turn1.json", {"messages": [SYSTEM, USER]}, encoded=True)
    (tmp_path / "turn2.json").write_text(json.dumps({"messages": [SYSTEM, USER, SAID, NEXT]}))
    assert main(["explain", model, first, str(tmp_path / "turn2.json")]) == 0
    said = capsys.readouterr().out
    assert "turn1.json: " in said
    assert "starts from  nothing (full)" in said
    assert "the state before an earlier answer (anchor at " in said
    assert "⏎<|im_start|>assistant⏎" in said
    assert said.count("\n\n") == 1


def test_a_file_given_twice_is_numbered_and_json_has_the_same_facts(model, tmp_path, capsys):
    path = event(tmp_path, "turn.json", {"messages": [SYSTEM, USER]})
    assert main(["explain", model, path, path, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["name"], second["name"], second["like"]) == ("turn.json #1", "turn.json #2", "turn.json #1")
    assert (second["path"], second["prefilled"], second["shared"]) == ("anchor", 0, first["prompt_tokens"])


@pytest.mark.parametrize(
    "text", ["", "[1]", "{}", '{"body": "x"}', '{"body": "{\\"messages\\": 3}"}', '{"messages": [4]}']
)
def test_a_file_that_is_no_request_is_refused_by_name(model, tmp_path, capsys, text):
    (tmp_path / "odd.json").write_text(text)
    assert main(["explain", model, str(tmp_path / "odd.json")]) == 1
    err = capsys.readouterr().err
    assert "odd.json is not a recorded chat request: " in err and err.count("\n") == 1


def test_the_events_of_this_project_can_be_explained():
    chats = sorted((Path(__file__).parents[2] / "events").glob("chat_*.json"))
    assert len(chats) >= 5
    assert all(read_recorded(str(path)).messages for path in chats)
