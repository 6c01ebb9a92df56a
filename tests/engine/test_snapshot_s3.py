"""Base snapshots in S3, which moto plays here: in this process, and as a server for others."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import boto3
import pytest
from moto import mock_aws
from stored import LONG_MS, Notes, answer, ask, load, logits_of, new_process

from engine import snapshot_s3
from engine.snapshot_file import position_of
from engine.snapshots import SnapshotPlaces
from make_synth import SHAPES, write_model

BUCKET, PREFIX = "snapshots", "qwarm/a"
URL = f"s3://{BUCKET}/{PREFIX}"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.gguf"
    write_model(path, replace(SHAPES["tinyg"], n_vocab=8192), "q4_k_m", seed=5)
    return str(path)


@pytest.fixture
def bucket(monkeypatch):
    """An empty bucket."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield client


def keys(client):
    return sorted(item["Key"] for item in client.list_objects_v2(Bucket=BUCKET).get("Contents", ()))


def store_one(path, notes=None):
    engine = load(path, SnapshotPlaces(s3=URL), notes)
    answer(engine, ask("One?"))
    engine.idle(LONG_MS)
    return engine


def test_another_environment_starts_from_what_one_uploaded(path, bucket):
    store_one(path)
    assert len(keys(bucket)) == 2 and all(key.startswith(f"{PREFIX}/") for key in keys(bucket))
    notes = Notes()
    other = load(path, SnapshotPlaces(s3=URL), notes)
    prefilled, said = answer(other, ask("Two?"))
    assert (prefilled.path, prefilled.restored_at) == (
        "snapshot_s3",
        max(position_of(key.split("/")[-1]) for key in keys(bucket)),
    )
    assert said == answer(load(path), ask("Two?"))[1]
    assert [fact["place"] for fact in notes.of("snapshot_read")] == ["snapshot_s3"]


def test_a_base_from_s3_is_kept_in_the_directory_too(path, bucket, tmp_path):
    store_one(path)
    engine = load(path, SnapshotPlaces(s3=URL, directory=str(tmp_path)))
    answer(engine, ask("Two?"))
    engine.idle(LONG_MS)
    assert len(list(tmp_path.iterdir())) == 1
    again = load(path, SnapshotPlaces(s3=URL, directory=str(tmp_path)))
    assert answer(again, ask("Three?"))[0].path == "snapshot_tmp"


def test_what_the_bucket_has_is_not_uploaded_again(path, bucket):
    store_one(path)
    before = {key: bucket.head_object(Bucket=BUCKET, Key=key)["LastModified"] for key in keys(bucket)}
    notes = Notes()
    store_one(path, notes)
    assert notes.of("snapshot_written") == []
    assert {key: bucket.head_object(Bucket=BUCKET, Key=key)["LastModified"] for key in keys(bucket)} == before


def test_an_upload_that_another_environment_was_faster_with_is_no_failure(path, bucket):
    notes = Notes()
    engines = [load(path, SnapshotPlaces(s3=URL), notes) for _ in range(2)]
    for engine in engines:
        answer(engine, ask("One?"))
    for engine in engines:
        engine.idle(LONG_MS)
    assert len(keys(bucket)) == 2
    assert notes.of("snapshot_store_failed") == []


@pytest.mark.parametrize("damage", ["short", "long", "changed"])
def test_a_damaged_object_is_ignored_with_one_note_and_replaced(path, bucket, damage):
    store_one(path)
    key = max(keys(bucket), key=lambda key: position_of(key.split("/")[-1]))
    whole = bucket.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    spoiled = {"short": whole[:-1], "long": whole + b"x", "changed": whole[:9000] + b"!" + whole[9001:]}[damage]
    bucket.put_object(Bucket=BUCKET, Key=key, Body=spoiled)
    notes = Notes()
    engine = load(path, SnapshotPlaces(s3=URL), notes)
    assert answer(engine, ask("Two?"))[1] == answer(load(path), ask("Two?"))[1]
    assert len(notes.of("snapshot_ignored")) == 1
    engine.idle(LONG_MS)
    assert bucket.get_object(Bucket=BUCKET, Key=key)["Body"].read() == whole


def test_a_bucket_that_does_not_exist_is_one_note_and_the_answer_comes(path, bucket):
    notes = Notes()
    engine = load(path, SnapshotPlaces(s3="s3://elsewhere/x"), notes)
    for text in ("One?", "Two?"):
        answer(engine, ask(text, system=f"System text of {text}"))
        engine.idle(LONG_MS)
    (failed,) = notes.of("snapshot_store_failed")
    assert "NoSuchBucket" in str(failed["reason"])


def test_an_endpoint_that_does_not_answer_costs_seconds_not_the_request(path, monkeypatch):
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}.items():
        monkeypatch.setenv(name, value)
    notes = Notes()
    engine = load(path, SnapshotPlaces(s3=URL), notes)
    started_s = time.monotonic()
    assert answer(engine, ask("Two?"))[0].path == "full"
    assert time.monotonic() - started_s < 5
    assert len(notes.of("snapshot_store_failed")) == 1


def test_an_upload_is_given_up_when_its_time_is_over(path, bucket, monkeypatch):
    notes = Notes()
    engine = load(path, SnapshotPlaces(s3=URL), notes)
    answer(engine, ask("One?", tools=()))
    monkeypatch.setattr(snapshot_s3, "time", SimpleNamespace(monotonic=lambda: 1e12))
    engine.idle(LONG_MS)
    assert keys(bucket) == []
    (failed,) = notes.of("snapshot_store_failed")
    assert "there was no time to send" in str(failed["reason"])


def test_an_environment_uploads_a_bounded_number_of_states(path, bucket, monkeypatch):
    monkeypatch.setattr(snapshot_s3, "_MOST_UPLOADS", 3)
    engine = load(path, SnapshotPlaces(s3=URL))
    for number in range(5):
        answer(engine, ask("One?", system=f"It is minute {number}.", tools=()))
        engine.idle(LONG_MS)
    assert len(keys(bucket)) == 3


def test_without_a_bucket_boto3_is_not_imported(path):
    code = (
        "import sys; from engine.engine import Engine; from engine.snapshots import SnapshotPlaces; "
        f"Engine.load({path!r}, context=512, places=SnapshotPlaces(directory='/nowhere')); "
        "sys.exit('boto3' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_new_process_starts_from_the_bucket(path, bucket, tmp_path):
    store_one(path)
    for key in keys(bucket):
        bucket.download_file(BUCKET, key, str(tmp_path / key.split("/")[-1]))
    cold, said = answer(load(path), ask("Two?"))
    other = new_process(path, "Two?", objects=tmp_path, s3=URL)
    assert (other["path"], other["said"]) == ("snapshot_s3", said)
    assert other["prefilled"] == cold.prompt_tokens - other["restored_at"] < cold.prompt_tokens


def test_logits_after_a_base_from_s3_are_those_of_a_cold_engine_bit_for_bit(path, bucket):
    store_one(path)
    request = ask("A question that was not asked before?")
    warm, cold = load(path, SnapshotPlaces(s3=URL)), load(path)
    assert (logits_of(warm, request) == logits_of(cold, request)).all()
