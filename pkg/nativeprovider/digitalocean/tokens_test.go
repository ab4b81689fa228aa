package digitalocean

import (
	"strings"
	"sync"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// tokenRecorder answers for the engine and remembers the tokens that it is asked for.
type tokenRecorder struct {
	mu     sync.Mutex
	tokens []string
}

func (r *tokenRecorder) add(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens = append(r.tokens, token)
}

// all are the tokens, each on a line.
func (r *tokenRecorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.tokens, "\n") + "\n"
}

// NewResource implements pulumi.MockResourceMonitor.
func (r *tokenRecorder) NewResource(args pulumi.MockResourceArgs) (string, resource.PropertyMap, error) {
	r.add(args.TypeToken)
	return args.Name, args.Inputs, nil
}

// Call implements pulumi.MockResourceMonitor.
func (r *tokenRecorder) Call(args pulumi.MockCallArgs) (resource.PropertyMap, error) {
	r.add(args.Token)
	return resource.PropertyMap{}, nil
}
