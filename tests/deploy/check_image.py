"""The image, built by the SAM CLI and run on arm64, emulated if need be.  It takes minutes: see `make test-image`.

ENGINE and BASE_IMAGE come from containers.sh, which the Makefile sources.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from run_events import free_port
from tests.deploy import registry

ROOT = Path(__file__).parents[2]
SAM = ROOT / "build" / "sam-venv" / "bin" / "sam"
ENGINE = os.environ["ENGINE"]
IMAGE = "chatfunction:arm64"
PLATFORM = ("--platform", "linux/arm64")
KEY = {"QWARM_API_KEY": "sk-test"}
START_TIMEOUT_S = 300
EMULATED = platform.machine() not in ("aarch64", "arm64")

os.environ.update(SAM_CLI_TELEMETRY="0")
os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")


def run(*command: str | Path, timeout_s: float = 1800, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, **options
    )


def event(name: str) -> Path:
    return ROOT / "events" / f"{name}.json"


@pytest.fixture(scope="session")
def image() -> str:
    """The name of the built image."""
    started_s = time.monotonic()
    built = run(SAM, "build", "--parameter-overrides", f"BaseImage={os.environ['BASE_IMAGE']}")
    assert built.returncode == 0, built.stdout + built.stderr
    print(f"\nsam build: {time.monotonic() - started_s:.0f} s")
    return IMAGE


@pytest.fixture(scope="session")
def server_image(image: str) -> str:
    """That image after the Dockerfile's last stage, at which `sam build` stops; docker and SAM share no layers."""
    _, last_stage = (ROOT / "Dockerfile").read_text().split("\nFROM function\n")
    built = run(ENGINE, "build", *PLATFORM, "--tag", "qwarm", "--file", "-", ".", input=f"FROM {image}\n{last_stage}")
    assert built.returncode == 0, built.stdout + built.stderr
    return "qwarm"


def inspect(image: str) -> dict[str, Any]:
    (facts,) = json.loads(run(ENGINE, "image", "inspect", image).stdout)
    return dict(facts)


def in_container(image: str, program: str, *flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program with the image's own interpreter and nothing that Lambda does not promise."""
    given = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    locked = ("--rm", "--read-only", "--tmpfs", "/tmp:rw,size=512m", "--network", "none", "--user", "993:990")
    return run(
        ENGINE,
        "run",
        *PLATFORM,
        *locked,
        *flags,
        *given,
        "--entrypoint",
        "/usr/bin/env",
        image,
        "python3",
        "-c",
        program,
    )


# --- what is in it ---


def test_the_image_is_one_manifest_for_arm64(image: str) -> None:
    facts = inspect(image)
    assert (facts["Os"], facts["Architecture"]) == ("linux", "arm64")
    assert "index" not in facts.get("ManifestType", "") and "list" not in facts.get("ManifestType", "")


def test_its_entry_is_a_program_with_its_path(image: str) -> None:
    config = inspect(image)["Config"]
    assert (config["Entrypoint"], config["Cmd"]) == (["/usr/bin/env", "python3", "-m"], ["handler"])


def test_outside_lambda_it_does_not_run_as_root(server_image: str) -> None:
    assert inspect(server_image)["Config"]["User"] == "65534:65534"


def test_the_model_is_the_last_layer_alone(image: str) -> None:
    listing = run(ENGINE, "history", "--format", "{{.Size}}", image).stdout
    layers_mb = [float(size) for size in re.findall(r"([\d.]+) ?MB", listing)]
    print(f"\nlayers, newest first, MB: {layers_mb}")
    model_bytes = (ROOT / "models/qwarm-demo.gguf").stat().st_size
    assert layers_mb[0] == pytest.approx(model_bytes / 1e6, rel=0.02)


ANSWER = """
import json, sys
from handler import local
from handler.app import handler
result = handler(json.load(open("/event.json")), local.LocalContext())
"""

WHAT_WAS_IMPORTED = f"""{ANSWER}
import handler.runtime
from handler.errors import KeysUnavailable
from handler.key_store import read_parameter
from handler.page import page_reply
assert page_reply().status == 200
try:
    read_parameter("/none")
except KeysUnavailable:
    pass
loaded = [m for m in list(sys.modules.values()) if getattr(m, "__cached__", None)]
def flags(module):
    try:
        return int.from_bytes(open(module.__cached__, "rb").read(8)[4:], "little")
    except OSError:
        return None
print(json.dumps({{m.__name__: flags(m) for m in loaded if m.__name__ != "__main__"}}))
"""


def test_everything_that_is_imported_is_compiled_and_not_checked_against_its_source(image: str) -> None:
    mounted = f"{event('chat_tools')}:/event.json:ro"
    done = in_container(image, WHAT_WAS_IMPORTED, "--volume", mounted, **KEY, AWS_DEFAULT_REGION="us-east-1")
    assert done.returncode == 0, done.stderr
    flags = json.loads(done.stdout)
    assert len(flags) > 200
    assert {name: found for name, found in flags.items() if found != 1} == {}


def test_the_files_that_are_only_for_building_stayed_behind(image: str) -> None:
    listing = in_container(image, "import os; print(sorted(os.listdir('/opt/qwarm')))").stdout
    assert listing.strip() == "['compiled', 'engine', 'handler', 'model.gguf', 'packages', 'snapshots']"


@pytest.mark.skipif(ENGINE != "podman", reason="docker's manifest command asks a registry for TLS")
def test_a85_a_pushed_image_is_one_manifest_and_an_index_is_refused(image: str, tmp_path: Path) -> None:
    conf = tmp_path / "registries.conf"
    with registry.running() as address:
        conf.write_text(f'[[registry]]\nlocation = "{address}"\ninsecure = true\n')
        trusting = {**os.environ, "CONTAINERS_REGISTRIES_CONF": str(conf), "ENGINE": ENGINE}

        def engine(*words: str) -> None:
            done = run(ENGINE, *words, env=trusting)
            assert done.returncode == 0, done.stderr

        def checked(tag: str) -> tuple[int, str]:
            script = ROOT / "tests" / "deploy" / "manifest.py"
            done = run(sys.executable, script, ENGINE, f"{address}/qwarm:{tag}", env=trusting)
            return done.returncode, done.stdout + done.stderr

        try:
            engine("tag", image, f"{address}/qwarm:image")
            engine("push", f"{address}/qwarm:image")
            assert checked("image")[0] == 0
            engine("manifest", "create", f"{address}/qwarm:index", f"{address}/qwarm:image")
            engine("manifest", "push", f"{address}/qwarm:index", f"docker://{address}/qwarm:index")
            status, said = checked("index")
            assert status == 1
            assert "is an index of 1 manifests and not an image: build with --provenance=false" in said
            status, said = checked("none")
            assert status == 1
            assert "cannot be inspected" in said
        finally:
            run(ENGINE, "manifest", "rm", f"{address}/qwarm:index")
            run(ENGINE, "rmi", f"{address}/qwarm:image")  # the name alone: the image has another


# --- how it runs ---


def test_a69_a80_it_answers_on_the_oldest_cpu_with_a_read_only_disk_no_home_no_dev_shm_and_an_unknown_user(
    image: str,
) -> None:
    mounted = f"{event('chat_plain')}:/event.json:ro"
    variables = {**KEY, "QEMU_CPU": "neoverse-n1", "HOME": "", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "2048"}
    answered = in_container(
        image, f"{ANSWER}\nprint(json.dumps(result))", "--ipc", "none", "--volume", mounted, **variables
    )
    assert answered.returncode == 0, answered.stderr
    result = json.loads(answered.stdout)
    assert result["statusCode"] == 200, result["body"]
    (prefill,) = records(answered.stderr, "prefill")
    assert not EMULATED or prefill["kernel"].startswith("dotprod/")


def test_a_function_without_a_key_does_not_start(image: str) -> None:
    failed = in_container(image, "from handler.app import init; init()")
    assert failed.returncode == 1
    assert "QWARM_API_KEY is not set" in failed.stderr


def test_a_missing_model_is_one_line_in_the_log(image: str) -> None:
    program = "from handler.app import init; init().loader.engine(60_000)"
    failed = in_container(image, program, **KEY, QWARM_MODEL="/tmp/none.gguf")
    (said,) = records(failed.stderr, "load_failed")
    assert "/tmp/none.gguf" in said["reason"]
    assert "\n" not in said["reason"]


def records(log: str, message: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in re.findall(r"^\{.*\}\s*$", log, re.MULTILINE)]
    return [line for line in lines if line.get("message") == message]


def wait_for(port: int, alive: Callable[[], bool]) -> None:
    """Until something listens there; fails if what should is not alive."""
    give_up_s = time.monotonic() + START_TIMEOUT_S
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert alive() and time.monotonic() < give_up_s
        time.sleep(0.2)


def test_it_serves_http_and_stops_when_it_is_told_to(server_image: str) -> None:
    port = free_port()
    serve = ("handler.local", "--host", "127.0.0.1", "--port", str(port))
    flags = (*PLATFORM, "--detach", "--network", "host", "--env", "QWARM_API_KEY=sk-test")
    container = run(ENGINE, "run", *flags, server_image, *serve).stdout.strip()

    def state() -> dict[str, Any]:
        (facts,) = json.loads(run(ENGINE, "container", "inspect", container).stdout)
        return dict(facts["State"])

    try:
        wait_for(port, lambda: bool(state()["Running"]))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as answer:
            assert json.loads(answer.read()) == {"status": "ready"}
        run(ENGINE, "stop", "--time", "60", container)
        assert state()["ExitCode"] == 0
    finally:
        run(ENGINE, "rm", "--force", container)


# --- under the SAM CLI ---


def invoke(name: str, folder: Path, **variables: str) -> tuple[Any, str]:
    """The result and the log of one invocation in a new environment."""
    path = variables_file(folder, **variables)
    done = run(SAM, "local", "invoke", "ChatFunction", "--event", event(name), "--env-vars", path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr  # exactly one JSON document


def variables_file(folder: Path, **variables: str) -> Path:
    path = folder / "env.json"
    path.write_text(json.dumps({"Parameters": {**KEY, **variables}}))
    return path


@pytest.mark.parametrize(
    ("name", "content_type", "isa"),
    [("chat_plain", "application/json", "i8mm"), ("chat_stream", "text/event-stream", "dotprod")],
)
def test_a87_a88_sam_local_invoke_answers_with_the_settings_that_were_overridden(
    image: str, tmp_path: Path, name: str, content_type: str, isa: str
) -> None:
    result, log = invoke(name, tmp_path, QWARM_ISA=isa, QWARM_CONTEXT="2048")
    assert (result["statusCode"], result["headers"]["content-type"].split(";")[0]) == (200, content_type)
    (ready,), (prefill,) = records(log, "ready"), records(log, "prefill")
    assert (prefill["prefill_path"], prefill["kernel"].split("/")[0], ready["context"]) == ("full", isa, 2048)
    print(f"\n{name}: init {ready['init_ms']} ms, load {ready['load_ms']} ms, prefill {prefill['prefill_ms']} ms")


def test_sam_local_invoke_answers_a_broken_request_with_a_400(image: str, tmp_path: Path) -> None:
    result, _ = invoke("bad_json", tmp_path)
    assert result["statusCode"] == 400
    assert json.loads(result["body"])["error"]["type"] == "invalid_request_error"


class Warm:
    """`sam local start-lambda`, which keeps its container between invocations."""

    def __init__(self, variables: Path, log: Path) -> None:
        self.port = free_port()
        self.log = log
        command = [SAM, "local", "start-lambda", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--env-vars", variables, "--warm-containers", "LAZY"]
        with log.open("w") as output:
            self.process = subprocess.Popen([str(word) for word in command], cwd=ROOT, stderr=output, stdout=output)
        wait_for(self.port, lambda: self.process.poll() is None)

    def invoke(self, said: bytes) -> Any:
        url = f"http://127.0.0.1:{self.port}/2015-03-31/functions/ChatFunction/invocations"
        with urllib.request.urlopen(url, data=said, timeout=START_TIMEOUT_S) as response:
            return json.loads(response.read())

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def warm(image: str, tmp_path: Path) -> Iterator[Warm]:
    running = Warm(variables_file(tmp_path), tmp_path / "start-lambda.log")
    yield running
    running.close()


def after_the_call(asked: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The event of an agent's next step: what was asked, the call that was the answer, and its result."""
    request, message = json.loads(asked["body"]), json.loads(answer["body"])["choices"][0]["message"]
    (call,) = message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "content": "21 degrees"}
    return {**asked, "body": json.dumps({**request, "messages": [*request["messages"], message, result]})}


def test_a_warm_environment_goes_on_from_what_the_first_request_left(warm: Warm) -> None:
    asked = json.loads(event("chat_tools").read_text())
    times_s = []

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        started_s = time.monotonic()
        answered: dict[str, Any] = warm.invoke(json.dumps(asked).encode())
        times_s.append(time.monotonic() - started_s)
        assert answered["statusCode"] == 200
        return answered

    answer(asked)
    answer(after_the_call(asked, answer(asked)))
    time.sleep(1)
    prefills = records(warm.log.read_text(), "prefill")
    assert [prefill["prefill_path"] for prefill in prefills] == ["full", "anchor", "extend"]
    assert [prefill["cold_start"] for prefill in prefills] == [True, False, False]
    assert prefills[1]["prefilled"] <= 4
    print(f"\nstart-lambda: {times_s[0]:.1f} s cold, {times_s[1]:.2f} s and {times_s[2]:.2f} s warm")


# --- other machines ---


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
def test_a84_a_build_for_another_architecture_says_what_to_do() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text().replace("\\\n", "")
    check = next(line for line in dockerfile.splitlines() if "uname -m" in line).removeprefix("RUN ")
    done = run("sh", "-c", check)
    if platform.machine() == "aarch64":
        assert done.returncode == 0
    else:
        assert (done.returncode, done.stdout) == (1, "")
        assert "--platform linux/arm64" in done.stderr
