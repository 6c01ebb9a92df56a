#!/usr/bin/env bash
# base_arm64.sh OUT.tar: a Debian trixie root file system for arm64 with python3 and gcc, for building our image where
# no container registry answers.
#
# It stands in for python:3.13-slim-trixie: same distribution, same Python.  The packages are unpacked, not configured
# (20 s; their scripts would take minutes under emulation), so the hooks do the little of that which a build needs.
# Needs mmdebstrap, and arm64 programs to run here: see setup.sh.
set -euo pipefail

packages=base-files,base-passwd,dash,bash,coreutils,sed,grep,findutils,tar,gzip,debianutils,diffutils,gawk,libc-bin
packages+=,ca-certificates,python3,python3-pip,libpython3-dev,gcc,libc6-dev,make

# shellcheck disable=SC2016  # $1 is the root directory, which mmdebstrap gives to the hooks
mmdebstrap --quiet --arch=arm64 --variant=extract --include="$packages" \
    --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --extract-hook='cp "$1/usr/share/base-passwd/passwd.master" "$1/etc/passwd"' \
    --extract-hook='cp "$1/usr/share/base-passwd/group.master" "$1/etc/group"' \
    --extract-hook='mkdir -p "$1/etc/ssl/certs" && cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"' \
    --extract-hook='ln -sf dash "$1/usr/bin/sh"' \
    --extract-hook='rm -rf "$1"/var/cache/apt/archives/*.deb "$1"/var/lib/apt/lists/*' \
    trixie "$1"
