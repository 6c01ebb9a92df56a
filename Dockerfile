# The function's image: the engine compiled for every arm64 CPU that Lambda has, the handler, and a model.
#
# Built by `sam build` or `make image`.  With docker's own builder: docker build --platform linux/arm64 --provenance=false,
# because Lambda refuses the image index that an attestation turns an image into.

# The function needs Debian (glibc 2.31 or later) or alike, and its python3.
ARG BASE_IMAGE=public.ecr.aws/docker/library/python:3.13-slim-trixie

# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS python
RUN [ "$(uname -m)" = aarch64 ] || \
    { echo "This image is for arm64 and the base image is for $(uname -m): build with --platform linux/arm64." >&2; exit 1; }

FROM python AS build
# hadolint ignore=DL3008
RUN { command -v gcc && command -v make; } >/dev/null || \
    { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev make && rm -rf /var/lib/apt/lists/*; }
WORKDIR /opt/qwarm
COPY requirements/s3.txt requirements/
# The packages' own tests, and AWS services that are not called, are half of what pip unpacks.
RUN python3 -m pip install --quiet --no-cache-dir --no-compile --no-deps --only-binary :all: --require-hashes \
        --disable-pip-version-check --progress-bar off --root-user-action ignore \
        --target packages --requirement requirements/s3.txt && \
    find packages -type d -name tests -prune -exec rm -rf {} + && \
    find packages/botocore/data -mindepth 1 -maxdepth 1 -type d \
        ! -name s3 ! -name ssm ! -name secretsmanager ! -name sts -exec rm -rf {} +
ENV PYTHONPATH=/opt/qwarm/packages
COPY native native
COPY engine/native_build.py engine/
RUN printf 'all: native\nPYTHON = python3\ninclude native/rules.mk\n' > Makefile && make -j "$(nproc)" build/aarch64/libqwarm.a && \
    python3 engine/native_build.py build/aarch64/libqwarm.a engine/_native.abi3.so
COPY engine engine
COPY handler handler
# Lambda's file system is read-only: what is not compiled here is compiled again at each cold start.
RUN PYTHONPYCACHEPREFIX=/opt/qwarm/compiled python3 -m handler.prepare

FROM python AS function
WORKDIR /opt/qwarm
ENV PYTHONPATH=/opt/qwarm:/opt/qwarm/packages \
    PYTHONPYCACHEPREFIX=/opt/qwarm/compiled \
    OPENBLAS_NUM_THREADS=1
COPY --from=build /opt/qwarm/packages packages
COPY --from=build /opt/qwarm/compiled compiled
COPY --from=build /opt/qwarm/engine engine
COPY --from=build /opt/qwarm/handler handler
# Base snapshots made by `python -m engine bake --out models/snapshots`, if there are any; one source must exist.
COPY models/README.md models/snapshots* snapshots/
ENTRYPOINT ["/usr/bin/env", "python3", "-m"]
CMD ["handler"]
ARG MODEL=models/qwarm-demo.gguf
COPY ${MODEL} model.gguf

# Lambda runs its functions as a user of its own, whatever is said here; other places do as the image says.  `sam build`
# stops before this stage, because `sam local` adds its emulator to the image with the image's own user.
FROM function
USER 65534:65534
