# The image that benchmarks run in. `ci/build_docker.sh` builds it, `ci/run.sh` runs it; docs/docker.md shows both.
# BASE_IMAGE is any Debian or Ubuntu image, best named by its digest (NAME@sha256:…): with python3 in it that one is used,
# else the distribution's (3.11 or newer), so nvidia/cuda:…-runtime-ubuntu24.04 will do.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS base
# git tells which commit of a mounted checkout was measured. Versions are those of the base.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git \
    && { command -v python3 || apt-get install --yes --no-install-recommends python3 python3-venv; } \
    && rm -rf /var/lib/apt/lists/*

FROM base AS build
ARG EXTRAS=data,postgres,report,xdist
WORKDIR /opt/source
COPY pyproject.toml README.md LICENSE constraints.txt alembic.ini ./
COPY alembic alembic
COPY src src
RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /opt/wheels . \
    && wheel=$(echo /opt/wheels/*.whl) \
    && /opt/venv/bin/pip install --no-cache-dir --constraint constraints.txt "$wheel${EXTRAS:+[$EXTRAS]}"

FROM base
# Whoever starts a container may be any user of the host (`--user`), so the home is open to all.
RUN useradd --no-log-init --uid 10000 --create-home --home-dir /home/bench bench \
    && chmod 1777 /home/bench
COPY --from=build /opt/venv /opt/venv
# A mounted checkout belongs to somebody of the host; git shall read it all the same.
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/home/bench \
    USER=bench \
    CURATOR_BENCH_IN_CONTAINER=1 \
    GIT_CONFIG_COUNT=1 \
    GIT_CONFIG_KEY_0=safe.directory \
    GIT_CONFIG_VALUE_0=*
USER 10000
WORKDIR /home/bench
ENTRYPOINT ["pytest"]
