# The same commands that .ci/run and the README name; `make` alone builds.
.PHONY: build test test-race lint ci bench demo

build:
	go build -o mqferry .

# Tests whose broker is missing skip and say so; integration/brokers/install.sh brings the brokers.
test:
	go test ./...

test-race:
	go test -race -short ./...

# golangci-lint reads .golangci.yml; it is not part of .ci/run.
lint:
	test -z "$$(gofumpt -l . | tee /dev/stderr)"
	go vet ./...
	staticcheck ./...
	if command -v golangci-lint >/dev/null; then golangci-lint run ./...; fi

ci:
	bash .ci/run

# The Go benchmarks of each package, then the figures of the README beside MirrorMaker 2 (needs the brokers).
bench:
	go test -run '^$$' -bench . -benchmem ./...
	go run ./integration/bench

demo:
	go run . demo
