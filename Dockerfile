# planton, the Pulumi CLI and the native plugins in one image. At run time it needs no network for the emulated clouds:
#   docker build --build-arg VERSION=v1.2.3 -t planton .
#   docker run --rm -v planton:/home/planton -v "$PWD:/work:ro" planton apply -f examples/one-cluster --cloud emulated --yes
# For several architectures, compiled on the machine that builds, so that nothing is emulated:
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v1.2.3 -t planton .
# Where the public images and modules are out of reach, name your own copies: --build-arg BUILD_IMAGE=…, RUN_IMAGE=…, GOPROXY=….
ARG BUILD_IMAGE=golang:1.26
ARG RUN_IMAGE=debian:stable-slim
FROM --platform=$BUILDPLATFORM $BUILD_IMAGE AS build
# What the image is for; where nobody says, the machine that builds.
ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=""
ARG GOPROXY
ENV CGO_ENABLED=0 GOFLAGS=-buildvcs=false
WORKDIR /src

# The Pulumi CLI takes the longest and changes the least: it has layers of its own.
COPY tools/go.mod tools/go.sum tools/
RUN version=$(cd tools && go list -m -f '{{.Version}}' github.com/pulumi/pulumi/pkg/v3) && cd tools && \
    GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
        -ldflags "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=${version#v}" \
        -o /out/bin/pulumi github.com/pulumi/pulumi/pkg/v3/cmd/pulumi

COPY go.mod go.sum ./
RUN go mod download
COPY apis apis
COPY cmd cmd
COPY iac iac
COPY internal internal
COPY pkg pkg
COPY tools tools
# planton tells its completions itself, so it is built for this machine first.
RUN sh tools/completions /out && export GOOS=$TARGETOS GOARCH=$TARGETARCH && PULUMI_HOME=/out/pulumi sh tools/install-plugins && \
    go build -trimpath -ldflags "-s -w ${VERSION:+-X github.com/plantonhq/project-planton/internal/cli.version=$VERSION}" -o /out/bin/planton ./cmd/planton
# The folder that a volume for states is mounted on must be the user's.
RUN mkdir -p /out/home/.local/state

FROM $RUN_IMAGE
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/bin /usr/local/bin
COPY --from=build /out/share /usr/local/share
COPY --from=build --chown=65532:65532 /out/home /home/planton
COPY --from=build --chown=65532:65532 /out/pulumi /home/planton/.pulumi
# Pulumi asks who runs it: a user whom /etc/passwd does not know has the name that is said here.
ENV HOME=/home/planton USER=planton PLANTON_PULUMI=/usr/local/bin/pulumi PULUMI_SKIP_UPDATE_CHECK=true
USER 65532:65532
WORKDIR /work
ENTRYPOINT ["planton"]
