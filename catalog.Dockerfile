# The catalog that a CatalogSource serves: `make catalog-build` writes catalog/configs first. The base holds opm, and
# grpc_health_probe for the probes that OLM puts on its pod.
ARG CATALOG_BASE_IMG=quay.io/operator-framework/opm:v1.73.0
FROM ${CATALOG_BASE_IMG} AS builder
COPY catalog/configs /configs
# The cache is made here: a pod with a read-only root, or without leave to write, could not.
RUN ["/bin/opm", "serve", "/configs", "--cache-dir=/tmp/cache", "--cache-only"]

FROM ${CATALOG_BASE_IMG}
LABEL operators.operatorframework.io.index.configs.v1=/configs
COPY --from=builder /configs /configs
COPY --from=builder /tmp/cache /tmp/cache
USER 1001
ENTRYPOINT ["/bin/opm"]
CMD ["serve", "/configs", "--cache-dir=/tmp/cache"]
