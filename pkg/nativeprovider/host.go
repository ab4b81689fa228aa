package nativeprovider

import (
	"context"
	"strings"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	pulumirpc "github.com/pulumi/pulumi/sdk/v3/proto/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// host is the connection back to the engine: its log. (The SDK's own host client stands in a package that pulls in a tracing bridge.)
type host struct {
	connection *grpc.ClientConn
	engine     pulumirpc.EngineClient
}

// newHost connects to the engine at address (host:port on loopback, as the engine gives it); the connection is made when it is first used.
func newHost(address string) (*host, error) {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, errors.Wrap(err, "connect to the engine")
	}
	return &host{connection: connection, engine: pulumirpc.NewEngineClient(connection)}, nil
}

func (h *host) log(
	ctx context.Context, severity pulumirpc.LogSeverity, urn resource.URN, message string, ephemeral bool,
) error {
	_, err := h.engine.Log(ctx, &pulumirpc.LogRequest{
		Severity:  severity,
		Message:   strings.ToValidUTF8(message, "?"),
		Urn:       string(urn),
		Ephemeral: ephemeral,
	})
	return errors.Wrap(err, "write to the engine's log")
}

func (h *host) close() error {
	return errors.Wrap(h.connection.Close(), "close the connection to the engine")
}
