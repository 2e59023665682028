// Modules that hold the CRDs of other projects, for `make verify-packaging`: nothing here is compiled.
module example.com/crds

go 1.24

require (
	github.com/operator-framework/api v0.45.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
)
