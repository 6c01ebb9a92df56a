#!/bin/sh
# install.sh build | arm: Debian's packages that the build, or the tests of the Arm kernels, need and that are missing.
#
#   build  gcc, make, Python's headers and venv: without them nothing goes on (status 1)
#   arm    the cross compiler, qemu, clang and llvm-mca: without them those tests are skipped (status 0)
#
# Asks nothing.  Installs as root, or with a sudo that needs no password, and says what; else says what to install.
# shellcheck disable=SC2329  # functions are called by need
set -eu

missing=
need() { eval "$1" >/dev/null 2>&1 || missing="$missing $2"; }
has() { command -v "$1"; }
header() { [ -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ]; }
fuzzer() { ls "$(clang-19 -print-resource-dir)"/lib/*/libclang_rt.fuzzer*.a; }

case ${1-} in
build)
    has python3 >/dev/null || { echo 'install.sh: python3 was not found; 3.11 or later is needed' >&2; exit 1; }
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "install.sh: $(python3 --version) was found; 3.11 or later is needed" >&2; exit 1; }
    need 'has gcc && echo "#include <stdio.h>" | gcc -E -' 'gcc libc6-dev'
    need header python3-dev
    need 'python3 -c "import ensurepip"' python3-venv
    without='nothing can be built' status=1
    ;;
arm)
    if [ "$(uname -m)" = x86_64 ]; then
        need 'has aarch64-linux-gnu-gcc' 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross'
    fi
    need 'has qemu-aarch64' qemu-user
    need 'has clang-19' clang-19
    need fuzzer libclang-rt-19-dev
    need 'has llvm-mca-19' llvm-19
    without='the tests of the Arm kernels and the speed gate are skipped' status=0
    ;;
*)
    echo "install.sh: '${1-}' was found; build or arm was expected" >&2
    exit 2
    ;;
esac
[ -n "$missing" ] || exit 0

root=
[ "$(id -u)" = 0 ] || root='sudo -n'
if has apt-get >/dev/null && $root true 2>/dev/null; then
    echo "installing with apt:$missing"
    $root env DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -qq &&
        apt-get install -y -qq --no-install-recommends $missing >/dev/null" && exit 0
fi
echo "not installed (Debian's names):$missing; $without" >&2
exit $status
