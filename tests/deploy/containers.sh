# shellcheck shell=sh disable=SC1091,SC2034
# containers.sh: to be sourced.  Finds what builds and runs the image, or says in words what is missing.
#
#   ENGINE      podman as setup.sh left it, else docker if it answers, else podman
#   BASE_IMAGE  the image to build on, unless given: the Dockerfile's own, or the one setup.sh made
#   FLAGS       what this engine's build needs besides

if [ -e build/podman/env ]; then
    . build/podman/env
    ENGINE=podman
    FLAGS=
    BASE_IMAGE=${BASE_IMAGE:-localhost/base-arm64:latest}
elif docker info >/dev/null 2>&1; then
    ENGINE=docker
    FLAGS=--provenance=false # an attestation makes an index of the image, which Lambda refuses
elif command -v podman >/dev/null; then
    ENGINE=podman
    FLAGS=
else
    echo 'neither docker nor podman runs here; on Debian, as root, tests/deploy/setup.sh installs podman' >&2
    exit 1
fi
BASE_IMAGE=${BASE_IMAGE:-public.ecr.aws/docker/library/python:3.13-slim-trixie}

if [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] && ! grep -qs ^enabled /proc/sys/fs/binfmt_misc/qemu-aarch64; then
    echo "the image is for arm64, and this machine runs no arm64 programs: install Debian's qemu-user-static and" \
        'binfmt-support, or run docker run --privileged --rm tonistiigi/binfmt --install arm64' >&2
    exit 1
fi
