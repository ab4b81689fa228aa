package provision

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/apitype"

	civov1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/civo"
	digitaloceanv1 "github.com/plantonhq/project-planton/apis/org/project_planton/provider/digitalocean"
	"github.com/plantonhq/project-planton/pkg/nativeprovider"
)

// Associated is an object in the cloud that no manifest declares, and that a destroy has to do with.
type Associated struct {
	// Kind says what it is: "load balancer", "volume", "volume snapshot", or the kind that the cloud gives.
	Kind string `json:"kind"`
	// ID and Name are the cloud's.
	ID   string `json:"id"`
	Name string `json:"name"`
	// Outcome is what becomes of it.
	Outcome Outcome `json:"outcome"`
	// Choice is the field of the manifest that decides between Destroyed and Kept, such as "spec.destroyAllAssociatedResources"; ""
	// where there is none.
	Choice string `json:"-"`
}

// Outcome is what becomes of an object when what it belongs to is destroyed.
type Outcome string

// The outcomes.
const (
	// Destroyed goes along with its cluster, because the Choice says so.
	Destroyed Outcome = "destroyed"
	// Kept stays when its cluster goes, and costs money.
	Kept Outcome = "kept"
	// Blocks stands in a network, which is not deleted before it is gone.
	Blocks Outcome = "blocks"
)

// String names the object.
func (a Associated) String() string { return fmt.Sprintf("%s %s (%s)", a.Kind, a.Name, a.ID) }

// leaving are the objects that a destroy of several stacks takes away, those before it included.
type leaving struct {
	mu  sync.Mutex
	ids map[string]bool
}

// note notes what goes with the resources of a stack.
func (l *leaving) note(resources []apitype.ResourceV3, associated []Associated) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ids == nil {
		l.ids = map[string]bool{}
	}
	for _, r := range resources {
		l.ids[string(r.ID)] = true
		l.droplets(r.Outputs)
	}
	for _, a := range associated {
		if a.Outcome == Destroyed {
			l.ids[a.ID] = true
		}
	}
}

// has tells whether an object goes. Nothing goes with a nil one.
func (l *leaving) has(id string) bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[id]
}

// associatedTimeout bounds the question for associated objects.
const associatedTimeout = 30 * time.Second

// associated asks the cloud what else a destroy of the resources has to do with.
func (o *ongoing) associated(ctx context.Context, resources []apitype.ResourceV3) []Associated {
	var ask func(context.Context, apitype.ResourceV3) ([]Associated, error)
	switch input := o.stack.StackInput.(type) {
	case interface {
		GetProviderConfig() *digitaloceanv1.DigitalOceanProviderConfig
	}:
		ask = func(ctx context.Context, r apitype.ResourceV3) ([]Associated, error) {
			return associatedInDigitalOcean(ctx, input.GetProviderConfig(), r, o.stack.leaving)
		}
	case interface {
		GetProviderConfig() *civov1.CivoProviderConfig
	}:
		ask = func(ctx context.Context, r apitype.ResourceV3) ([]Associated, error) {
			return associatedInCivo(ctx, input.GetProviderConfig(), r)
		}
	default:
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, associatedTimeout)
	defer cancel()
	var found []Associated
	for _, r := range resources {
		of, err := ask(ctx, r)
		if err != nil {
			o.tell(EventWarning, nameOf(string(r.URN)), "cannot tell what else is there: "+err.Error())
		}
		found = append(found, of...)
	}
	if o.stack.leaving != nil {
		o.stack.leaving.note(resources, found)
	}
	return found
}

// beforeDestroy finds what else a destroy has to do with, and tells it when the destroy is about to begin.
func (o *ongoing) beforeDestroy(ctx context.Context, begins bool) []Associated {
	state, err := o.command.checkpoint()
	if err != nil {
		return nil // the stack is new
	}
	associated := o.associated(ctx, state.Resources)
	if !begins {
		return associated
	}
	for _, a := range associated {
		switch a.Outcome {
		case Destroyed:
			o.tell(EventInfo, "", a.String()+" was made by Kubernetes and is destroyed too")
		case Kept:
			o.tell(EventWarning, "", a.String()+" was made by Kubernetes and is kept: delete it in the cloud when nobody needs it")
		case Blocks:
			o.tell(EventWarning, "", a.String()+" stands in the network, which is not deleted before it is gone: waiting for that")
		}
	}
	return associated
}

// questioner sends requests with a token, which it takes out of answers that report a failure: they become warnings.
func questioner(scheme, token string) *http.Client {
	return &http.Client{
		Transport: &nativeprovider.Authorized{Base: http.DefaultTransport, Scheme: scheme, Token: token}, CheckRedirect: refuseRedirect,
	}
}

// refuseRedirect keeps the token from being sent to wherever an answer points; the APIs do not redirect.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
