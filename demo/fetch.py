"""Fetch the released Qwen3.5-0.8B from the Hugging Face hub into models/: `make model`.

The file appears under its name only when its size and SHA-256 are the ones below; what is broken off or differs is
thrown away.  HF_ENDPOINT names another hub, as huggingface_hub reads it.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url

MODELS = Path(__file__).parents[1] / "models"


@dataclass(frozen=True)
class Pinned:
    """One file of one revision."""

    repository: str
    revision: str
    name: str
    n_bytes: int
    sha256: str

    def differs(self, n_bytes: int | None, sha256: str | None) -> str:
        """What is wrong with these, as words; empty if nothing is."""
        if n_bytes != self.n_bytes:
            return f"{self.name} has {n_bytes} bytes, expected {self.n_bytes}"
        return "" if sha256 == self.sha256 else f"{self.name} has the SHA-256 {sha256}, expected {self.sha256}"


MODEL = Pinned(
    repository="unsloth/Qwen3.5-0.8B-GGUF",
    revision="6ab461498e2023f6e3c1baea90a8f0fe38ab64d0",
    name="Qwen3.5-0.8B-Q4_K_M.gguf",
    n_bytes=532_517_120,
    sha256="bd258782e35f7f458f8aced1adc053e6e92e89bc735ba3be89d38a06121dc517",
)


class NotFetchedError(Exception):
    """The file is not there, for the reason in the message."""


def fetch(pinned: Pinned, folder: Path) -> Path:
    """The file in ``folder``, fetched unless it is there already.  Raises NotFetchedError and leaves nothing behind."""
    target = folder / pinned.name
    if target.is_file() and not pinned.differs(target.stat().st_size, _sha256(target)):
        return target
    at = {"repo_id": pinned.repository, "filename": pinned.name, "revision": pinned.revision}
    try:
        offered = get_hf_file_metadata(hf_hub_url(**at), token=False)
        _check(pinned.differs(offered.size, offered.etag))  # the etag of a large file is its SHA-256
        with TemporaryDirectory(prefix=".fetch-", dir=folder) as held:
            path = Path(hf_hub_download(**at, local_dir=held, token=False))
            _check(pinned.differs(path.stat().st_size, _sha256(path)))
            path.replace(target)
    except httpx2.TransportError as error:
        raise NotFetchedError(f"there is no way to the hub from here, {hf_hub_url(**at)}: {error}") from error
    except OSError as error:  # the hub's refusals are some, a full disk is another
        raise NotFetchedError(f"{hf_hub_url(**at)} cannot be fetched: {str(error).splitlines()[0]}") from error
    return target


def _check(difference: str) -> None:
    if difference:
        raise NotFetchedError(f"the hub offers another file: {difference}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    try:
        path = fetch(MODEL, MODELS)
    except NotFetchedError as error:
        sys.exit(f"make model: {error}\nThe demo goes on with the model in the box, models/qwarm-demo.gguf.")
    shown = path.relative_to(MODELS.parent)
    print(f"{shown} is there, {MODEL.n_bytes:,} bytes, SHA-256 as expected; now: make run MODEL={shown}")


if __name__ == "__main__":
    main()
