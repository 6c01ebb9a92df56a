"""Compiles what the function imports, for an image whose disk cannot be written to: `python -m handler.prepare`.

Run while the image is built, with PYTHONPYCACHEPREFIX naming a folder that goes into it.  Importing a module leaves its
compiled form there; this makes of each a form that is used without a look at its source.  Compiling whole libraries
instead would take minutes under emulation, for modules that nobody asks for.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path

PACKAGES = ("engine", "handler")
LATER = (  # imported when a request or a setting needs them
    "boto3",
    "encodings.idna",
    "encodings.unicode_escape",
    "llguidance",
    "llguidance.numpy",
    "numpy.random",
)
NEVER = ("engine.native_build", "handler.report_plot")  # tools of other machines
SERVICES = ("s3", "ssm", "secretsmanager")
_HEADER_BYTES = 16
_UNCHECKED_HASH = 1  # PEP 552


def import_everything() -> None:
    """What starts and answers import, now or later."""
    for package in PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            if module.name not in NEVER:
                importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)
    keys = {"aws_access_key_id": "-", "aws_secret_access_key": "-"}  # given, so that none are looked for
    for service in SERVICES:
        importlib.import_module("boto3").client(service, region_name="us-east-1", **keys)


def uncheck(compiled: Path, source: Path) -> None:
    """Make the compiled form one that is never compared with its source."""
    data = compiled.read_bytes()
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH.to_bytes(4, "little")
    compiled.write_bytes(header + importlib.util.source_hash(source.read_bytes()) + data[_HEADER_BYTES:])


def main() -> int:
    if sys.pycache_prefix is None:
        sys.stderr.write("PYTHONPYCACHEPREFIX is not set: expected the folder for compiled modules\n")
        return 1
    sys.dont_write_bytecode = False
    import_everything()
    modules = list(Path(sys.pycache_prefix).rglob("*.pyc"))
    for compiled in modules:
        uncheck(compiled, Path(importlib.util.source_from_cache(str(compiled))))
    sys.stdout.write(f"{len(modules)} modules are compiled in {sys.pycache_prefix}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
