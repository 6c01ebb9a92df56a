"""The check of a pushed reference, with engines that answer as docker and podman do; check_image.py has a real one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("manifest.py")
IMAGE = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {}, "layers": [{}]}
ATTESTED = {
    "schemaVersion": 2,
    "mediaType": "application/vnd.oci.image.index.v1+json",
    "manifests": [
        {"platform": {"architecture": "arm64", "os": "linux"}},
        {"platform": {"architecture": "unknown", "os": "unknown"}},
    ],
}


def check(folder: Path, answer: str, *, status: int = 0, reason: str = "") -> tuple[int, str]:
    """Status and words of the check when the engine answers so."""
    engine = folder / "engine"
    engine.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "assert sys.argv[1:] == ['manifest', 'inspect', 'registry.example/qwarm:1'], sys.argv\n"
        f"sys.stdout.write({answer!r}); sys.stderr.write({reason!r}); sys.exit({status})\n"
    )
    engine.chmod(0o755)
    command = [sys.executable, SCRIPT, engine, "registry.example/qwarm:1"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_a85_one_image_passes(tmp_path: Path) -> None:
    assert check(tmp_path, json.dumps(IMAGE)) == (0, f"registry.example/qwarm:1 is one image: {IMAGE['mediaType']}")
    warning = "WARN[0000] The manifest type is not a manifest list but a single image.\n"
    assert check(tmp_path, json.dumps(IMAGE), reason=warning)[0] == 0  # as podman says


@pytest.mark.parametrize(
    ("answer", "status", "reason", "said"),
    [
        (ATTESTED, 0, "", "registry.example/qwarm:1 is an index of 2 manifests and not an image: build with"),
        ("", 1, "denied: not signed in\n", "registry.example/qwarm:1 cannot be inspected: denied: not signed in"),
        ("", 125, "", "cannot be inspected: it gave no reason"),
        ("no JSON", 0, "", "gave no JSON"),
        ({"schemaVersion": 1}, 0, "", "is neither an image nor an index"),
    ],
)
def test_a85_what_is_not_one_image_or_cannot_be_seen_is_refused(
    tmp_path: Path, answer: Any, status: int, reason: str, said: str
) -> None:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    found, words = check(tmp_path, text, status=status, reason=reason)
    assert found == 1
    assert said in words
    assert "\n" not in words


def test_a_missing_reference_is_wrong_usage() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "podman", ""], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert "IMAGE=" in done.stderr
