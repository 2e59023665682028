# The operator's image. Any builder will do, Docker's classic one too: no RUN --mount, no here-documents.
# `make docker-build` passes what the labels need; any base with Python 3.13 and pip can stand in for the default one,
# best pinned: --build-arg BASE_IMAGE=python:3.13-slim-trixie@sha256:...
ARG BASE_IMAGE=docker.io/library/python:3.13-slim-trixie

# --- packages: what requirements.txt locks, in an environment without pip ---------------------------------------------
FROM ${BASE_IMAGE} AS packages
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv --without-pip /opt/memcached-operator
WORKDIR /build
COPY requirements.txt .
# Wheels only: nothing is compiled, and no package runs code of its own here.
RUN python -m pip --python /opt/memcached-operator/bin/python install --quiet --no-compile \
      --require-hashes --only-binary :all: -r requirements.txt
# kubernetes: two thirds of everything are its generated models and API classes, loaded when asked for; we ask for none.
# Scripts are for people. Bytecode is not compared with its source: the root may be read-only, and builds repeat.
RUN find /opt/memcached-operator/lib -type f ! -name __init__.py \
      \( -path '*/kubernetes/*client/models/*' -o -path '*/kubernetes/*client/api/*' \) -delete \
 && find /opt/memcached-operator/bin -type f -delete \
 && python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/memcached-operator/lib

# --- program: this repository's wheel, beside the packages ------------------------------------------------------------
FROM packages AS program
# The build backend stays behind in this stage.
COPY hack/requirements-build.txt .
RUN python -m pip --python /opt/memcached-operator/bin/python install --quiet \
      --require-hashes --only-binary :all: -r requirements-build.txt
COPY pyproject.toml README.md LICENSE ./
COPY operator/memcached_operator operator/memcached_operator
RUN python -m pip --python /opt/memcached-operator/bin/python install --quiet --no-compile \
      --no-deps --no-build-isolation --root /program . \
 && python -m compileall -q -s /program -p / --invalidation-mode unchecked-hash /program \
 && install -D -m 644 LICENSE /program/licenses/LICENSE

# --- the image --------------------------------------------------------------------------------------------------------
FROM ${BASE_IMAGE}
COPY --from=packages /opt/memcached-operator /opt/memcached-operator
COPY --from=program /program /
ENV PATH=/opt/memcached-operator/bin:$PATH
# A number: the kubelet can tell that it is not root.
USER 65532:65532
EXPOSE 8080 8081
ENTRYPOINT ["memcached-operator"]
CMD ["run"]

ARG BASE_IMAGE
ARG VERSION=unreleased
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL name="memcached-operator" \
      vendor="memcached-operator authors" \
      maintainer="memcached-operator authors" \
      version="${VERSION}" \
      release="1" \
      summary="Runs memcached on Kubernetes" \
      description="Write a Memcached; the operator keeps its pods, Service and disruption budget." \
      org.opencontainers.image.title="memcached-operator" \
      org.opencontainers.image.description="Write a Memcached; the operator keeps its pods, Service and disruption budget." \
      org.opencontainers.image.vendor="memcached-operator authors" \
      org.opencontainers.image.authors="memcached-operator authors" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.url="https://example.com/memcached-operator" \
      org.opencontainers.image.source="https://example.com/memcached-operator" \
      org.opencontainers.image.documentation="https://example.com/memcached-operator/docs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE_IMAGE}"
