"""That a pushed reference is one image and not an index, which Lambda refuses: manifest.py ENGINE REFERENCE.

ENGINE is docker or podman, signed in to the registry.
"""

from __future__ import annotations

import json
import subprocess
import sys


class NotOneImage(Exception):
    """Lambda would refuse the reference, or nobody can tell."""


def check(engine: str, reference: str) -> str:
    """The media type of the image's manifest."""
    done = subprocess.run([engine, "manifest", "inspect", reference], capture_output=True, text=True)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["it gave no reason"]
        raise NotOneImage(f"{reference} cannot be inspected: {said[-1]}")
    try:
        manifest = json.loads(done.stdout)
    except ValueError:
        raise NotOneImage(f"{engine} manifest inspect gave no JSON for {reference}") from None
    if "manifests" in manifest:
        raise NotOneImage(
            f"{reference} is an index of {len(manifest['manifests'])} manifests and not an image: "
            "build with --provenance=false"
        )
    if "layers" not in manifest:
        raise NotOneImage(f"{reference} is neither an image nor an index")
    return str(manifest.get("mediaType", "application/vnd.oci.image.manifest.v1+json"))


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or not all(arguments):
        print("expected an engine and a pushed reference: make check-manifest IMAGE=REGISTRY/NAME:TAG", file=sys.stderr)
        return 2
    try:
        print(f"{arguments[1]} is one image: {check(*arguments)}")
    except NotOneImage as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
