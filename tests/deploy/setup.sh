#!/usr/bin/env bash
# setup.sh: a container engine that builds and runs arm64 images, for the image's test on a bare Debian machine.
#
#   installs   podman, runc, netavark, aardvark-dns, conmon, iptables, mmdebstrap, qemu-user-static, arch-test  (apt)
#   registers  qemu-aarch64 with the kernel's binfmt_misc, unless this machine is arm64
#   writes     build/podman/: settings, the base image's archive, the service's socket
#   starts     podman's service at unix://build/podman/podman.sock (docker's API, which the SAM CLI speaks)
#
# Needs root, and says so with status 3 where it is not, for the caller to skip.  What is done already is not repeated.
set -euo pipefail
cd "$(dirname "$0")/../.."

cannot() { echo "setup.sh: $1" >&2; exit 3; }
[ "$(id -u)" = 0 ] || cannot 'only root can install podman and register emulation'
command -v apt-get >/dev/null || cannot 'this machine has no apt-get'

here=$PWD/build/podman
mkdir -p "$here"

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need podman podman
need runc runc
need mmdebstrap mmdebstrap
need arch-test arch-test
need qemu-aarch64-static qemu-user-static
if [ ${#missing[@]} -gt 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || cannot "Debian's packages cannot be had"
    apt-get install -y -qq --no-install-recommends "${missing[@]}" netavark aardvark-dns conmon iptables >/dev/null ||
        cannot 'podman cannot be installed'
fi

# The line in qemu-user-static's file has flag F: the kernel keeps the emulator open, so containers need no copy of it.
binfmt=/proc/sys/fs/binfmt_misc
if [ "$(uname -m)" != aarch64 ] && [ ! -e $binfmt/qemu-aarch64 ]; then
    [ -e $binfmt/register ] || mount -t binfmt_misc binfmt_misc $binfmt || cannot 'this kernel has no binfmt_misc'
    cat /usr/lib/binfmt.d/qemu-aarch64.conf >$binfmt/register || cannot 'this kernel lets no emulator be registered'
fi

# runc and fixed limits: crun refuses mixed cgroup versions, and raising limits needs CAP_SYS_RESOURCE.
cat >"$here/containers.conf" <<'END'
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_backend = "netavark"
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=30000:30000"]
log_driver = "k8s-file"
END
cat >"$here/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$here/storage"
runroot = "$here/run"
END
echo 'unqualified-search-registries = []' >"$here/registries.conf"
cat >"$here/env" <<END
export CONTAINERS_CONF=$here/containers.conf
export CONTAINERS_STORAGE_CONF=$here/storage.conf
export CONTAINERS_REGISTRIES_CONF=$here/registries.conf
export DOCKER_HOST=unix://$here/podman.sock
END
# shellcheck source=/dev/null
. "$here/env"

podman info >/dev/null || cannot 'podman does not run here'
if ! podman image exists localhost/base-arm64; then
    [ -e "$here/base.tar" ] || tests/deploy/base_arm64.sh "$here/base.tar"
    podman import --quiet --arch arm64 --os linux "$here/base.tar" localhost/base-arm64:latest >/dev/null
    rm "$here/base.tar"
fi
if ! podman --remote --url "$DOCKER_HOST" info >/dev/null 2>&1; then
    nohup podman system service --time=0 "$DOCKER_HOST" >"$here/service.log" 2>&1 &
    echo $! >"$here/service.pid"
    for _ in $(seq 50); do [ -S "$here/podman.sock" ] && break; sleep 0.1; done
fi
