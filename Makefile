# Everything a developer or CI does, by name. `make help` lists it.
SHELL := /bin/sh
.DEFAULT_GOAL := help

# The module that holds buf/validate/validate.proto. It is data for buf, not a Go dependency; the Go checksum database
# vouches for it all the same.
PROTOVALIDATE := github.com/bufbuild/protovalidate@v1.2.2
# The same for google/api/annotations.proto: the last release of the gateway that carries a copy of it.
GOOGLEAPIS := github.com/grpc-ecosystem/grpc-gateway@v1.16.0

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

.PHONY: demo
demo: pulumi-cli ## provision clusters on both clouds, emulated on this machine, and take them down again
	@sh examples/demo.sh

.PHONY: test
test: generate-check lint ## everything that CI runs
	@FUZZTIME=$${FUZZTIME:-15s} $(MAKE) -j2 --output-sync=target in-order fuzz

# Fuzzing takes what these leave of the machine; make fuzz alone takes twice the time.
.PHONY: in-order
in-order: unit
	@$(MAKE) karpenter
	@$(MAKE) chart

# Sets NODEPOOLS_OPENAPI_TOOLS: with it the tests lint the description of the REST API, and what they ask goes through the proxy there.
OPENAPI_TOOLS = if command -v npm >/dev/null; then NODEPOOLS_OPENAPI_TOOLS=$$(tools/npm openapi)/node_modules/.bin && export NODEPOOLS_OPENAPI_TOOLS; else \
	echo "NOT TESTED, as there is no npm here: the description of the REST API is not linted, and no proxy holds the API against it" >&2; fi

.PHONY: unit
unit: pulumi-cli ## the tests of every package, the end-to-end ones on the real engine included; the REST API through a proxy, as in openapi
	@# Most of the time goes to processes of the engine, which live for a second: to collect less garbage saves a tenth of it.
	@$(OPENAPI_TOOLS) && GOGC=400 go test -timeout 40m -p 3 -parallel 4 ./...

.PHONY: openapi
openapi: ## lint the description of the REST API, and play its tests through a proxy that holds every request and answer against it
	@$(OPENAPI_TOOLS) && cd pkg/nodepools/server && go test -count=1

.PHONY: chart
chart: ## lint the Helm chart of the NodePools service, render it, hold it and its dashboard against the server and Grafana's schema, and try the alerts
	@sh karpenter-provider-cloudstack/tools/all helm etcd kube-apiserver
	@tool=karpenter-provider-cloudstack/tools/tool && PROMTOOL="$$(sh tools/promtool || true)" \
		NODEPOOLS_DASHBOARD_TOOLS="$$(tools/npm dashboard || true)" \
		HELM="$$($$tool helm)" ETCD="$$($$tool etcd)" KUBE_APISERVER="$$($$tool kube-apiserver)" \
		go test -count=1 -run '^Test(Chart|Expressions|AlertsFire)' ./internal/nodepoolsserver

.PHONY: karpenter
karpenter: ## the demonstration and the tests of the Karpenter provider for CloudStack, a Go module of its own
	@$(MAKE) -C karpenter-provider-cloudstack demo test

.PHONY: race
race: pulumi-cli ## the tests of the concurrent parts under the race detector
	go test -race -timeout 40m ./pkg/emulator/... ./pkg/nativeprovider/...

# How many schedules make soak plays, and the first of them.
SEEDS ?= 500
START ?= 1

.PHONY: soak
soak: pulumi-cli ## play SEEDS (500) schedules of faults and kills from seed START (1) on, six side by side
	go test -count=1 -timeout 24h -v -run '^TestSoak$$' ./internal/soak -seeds $(SEEDS) -start $(START) -side-by-side 6

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (30s), two side by side; it gives way to what runs beside it
	@nice -n 10 sh tools/fuzz

.PHONY: bench
bench: pulumi-cli ## what an operation costs beside the time of the clouds, see docs/performance.md (BENCH=full: two hundred stacks and more)
	@mkdir -p .build && go build -o .build/bench ./internal/bench && .build/bench

.PHONY: bench-nodepools
bench-nodepools: pulumi-cli ## what the NodePools service answers a second on SQLite and PostgreSQL, see docs/performance.md
	@mkdir -p .build && go build -o .build/nodepoolsbench ./internal/nodepoolsbench && .build/nodepoolsbench

.PHONY: lint
lint: ## go vet and the linter
	go vet ./...
	$$(tools/tool golangci-lint) run ./...

.PHONY: pulumi-cli
pulumi-cli: ## build the Pulumi CLI into the user's cache, unless one is there or on PATH
	@go run ./internal/findpulumi >/dev/null

.build/protovalidate:
	@mkdir -p .build
	@dir=$$(cd tools && go mod download -json $(PROTOVALIDATE) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
		cp -r "$$dir/proto/protovalidate" $@.new && chmod -R u+w $@.new && mv $@.new $@

.build/googleapis:
	@mkdir -p .build
	@dir=$$(cd tools && go mod download -json $(GOOGLEAPIS) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p') && \
		rm -rf $@.new && mkdir -p $@.new/google/api && cp "$$dir"/third_party/googleapis/google/api/*.proto $@.new/google/api/ && \
		chmod -R u+w $@.new && mv $@.new $@

# The plugins that buf.gen.yaml names, on the PATH of what follows.
PLUGINS = for plugin in protoc-gen-go protoc-gen-go-grpc protoc-gen-grpc-gateway; do \
	PATH="$$(dirname "$$(tools/tool $$plugin)"):$$PATH"; done

# The protos with their comments, which the generated Go lacks: for planton explain, generate and schema.
BUILD_IMAGE = $$(tools/tool buf) build apis --exclude-imports --as-file-descriptor-set -o

.PHONY: generate
generate: lint-protos ## generate Go from the protos, the image of their comments, the JSON Schemas and the OpenAPI document
	@$(PLUGINS) && $$(tools/tool buf) generate
	@$(BUILD_IMAGE) pkg/schema/protos.binpb
	go test ./pkg/schema -run '^TestSchemasAreFresh$$' -update
	go run ./internal/openapi pkg/schema/protos.binpb > .build/openapi.json && mv .build/openapi.json pkg/nodepools/server/openapi.json

.PHONY: reference
reference: ## the reference of the commands in docs/reference, after a change of a command or flag
	@rm -rf docs/reference && go run ./internal/reference markdown docs/reference

.PHONY: man
man: ## manual pages of the commands into .build/man
	@rm -rf .build/man && go run ./internal/reference man .build/man

.PHONY: lint-protos
lint-protos: .build/protovalidate .build/googleapis ## format and rules of the protos
	@buf=$$(tools/tool buf) && $$buf format --diff --exit-code apis && $$buf lint

.PHONY: generate-check
generate-check: lint-protos breaking ## fail when what is generated is not what the protos say
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && $(PLUGINS) && $$(tools/tool buf) generate -o "$$fresh" && \
		(cd "$$fresh" && find apis -name '*.pb*.go' | sort) > "$$fresh/want" && find apis -name '*.pb*.go' | sort > "$$fresh/have" && \
		{ diff -u "$$fresh/have" "$$fresh/want" && while read -r f; do cmp "$$f" "$$fresh/$$f" || exit; done < "$$fresh/want"; } || \
		{ echo "the generated Go under apis/ is stale: run make generate and commit" >&2; exit 1; }
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && $(BUILD_IMAGE) "$$fresh/protos.binpb" && \
		cmp pkg/schema/protos.binpb "$$fresh/protos.binpb" || \
		{ echo "pkg/schema/protos.binpb is stale: run make generate and commit" >&2; exit 1; }
	go test ./pkg/schema -run '^TestSchemasAreFresh$$'
	@go run ./internal/openapi pkg/schema/protos.binpb | cmp - pkg/nodepools/server/openapi.json || \
		{ echo "pkg/nodepools/server/openapi.json is stale: run make generate and commit" >&2; exit 1; }

.PHONY: breaking
breaking: .build/protovalidate .build/googleapis ## fail when the protos break what is promised (apis/baseline.binpb)
	@$$(tools/tool buf) breaking apis --against apis/baseline.binpb

.PHONY: baseline
baseline: breaking ## take the protos as they are now as what is promised from now on (apis/baseline.binpb)
	@$$(tools/tool buf) build apis --exclude-source-info -o apis/baseline.binpb

.PHONY: build
build: ## build the commands into bin/
	go build -trimpath -o bin/ ./cmd/...

# Where make install puts things; DESTDIR stands before it when a package is made. DIST is where they are made.
PREFIX ?= /usr/local
DIST ?= dist

.PHONY: completions
completions: ## write the completions of bash, zsh, fish and PowerShell into dist/share, laid out as packages have them
	sh tools/completions "$(DIST)"

.PHONY: install
install: completions ## install planton, its completions and its manual pages under PREFIX (/usr/local)
	umask 022; rm -rf "$(DIST)/share/man" && go run ./internal/reference man "$(DIST)/share/man/man1"
	umask 022; mkdir -p "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/share"
	umask 022; cp "$(DIST)/bin/planton" "$(DESTDIR)$(PREFIX)/bin/planton"
	umask 022; cp -R "$(DIST)/share/." "$(DESTDIR)$(PREFIX)/share/"

.PHONY: install-plugins
install-plugins: ## install the native plugins, so that plain `pulumi up` uses them instead of downloading the official ones
	sh tools/install-plugins

.PHONY: image-test
image-test: ## build the images of the Dockerfiles by buildah and run what is in them, see docs/cli.md (root on Debian)
	@sh tools/image-test

.PHONY: clean
clean: ## remove what was built in the checkout
	rm -rf .build bin dist
