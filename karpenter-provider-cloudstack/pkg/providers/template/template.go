// Package template finds the templates that machines are made of.
package template

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/samber/lo"
	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	csv1 "github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/apis/v1"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cache"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/cloudstack"
	"github.com/plantonhq/project-planton/karpenter-provider-cloudstack/pkg/providers/selector"
)

const ttl = 5 * time.Minute

// API is what of CloudStack is asked.
type API interface {
	ListTemplates(ctx context.Context, scope cloudstack.Scope, zoneID string) ([]*cloudstack.Template, error)
}

// Provider finds templates. What it returns is shared, and must not be changed.
type Provider interface {
	// GetByName finds the newest template of a name that is ready. The error is a *selector.Error where there is none.
	GetByName(ctx context.Context, scope cloudstack.Scope, zoneID, name string) (*cloudstack.Template, error)
	// GetByID finds the template of an id, ready or not. The error is a *selector.Error where there is none.
	GetByID(ctx context.Context, scope cloudstack.Scope, zoneID, id string) (*cloudstack.Template, error)
	// GetByTags lists the templates that have all of the tags and are ready, the newest first; the value * is for any.
	GetByTags(ctx context.Context, scope cloudstack.Scope, zoneID string, tags map[string]string) ([]*cloudstack.Template, error)
	// Resolve finds, for each zone, the newest template of each architecture that is ready. The error is a *selector.Error that names
	// each zone without a template.
	Resolve(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, zones []csv1.ZoneStatus) ([]csv1.TemplateStatus, error)
}

// DefaultProvider is a Provider that remembers templates for five minutes.
type DefaultProvider struct {
	api       API
	templates *cache.Cache[[]*cloudstack.Template]
}

var _ Provider = (*DefaultProvider)(nil)

// NewProvider makes a provider. It makes no request.
func NewProvider(api API, clk clock.Clock) *DefaultProvider {
	return &DefaultProvider{api: api, templates: cache.New[[]*cloudstack.Template]("templates", ttl, clk)}
}

// list lists the templates of a zone, the newest first.
func (p *DefaultProvider) list(ctx context.Context, scope cloudstack.Scope, zoneID string, maxAge time.Duration) ([]*cloudstack.Template, error) {
	templates, _, err := p.templates.GetWithin(ctx, selector.Key(scope, zoneID), maxAge, func(ctx context.Context) ([]*cloudstack.Template, error) {
		templates, err := p.api.ListTemplates(ctx, scope, zoneID)
		if err != nil {
			return nil, err
		}
		templates = slices.Clone(templates)
		slices.SortStableFunc(templates, newestFirst)
		// A template with copies in several zones is listed once for each.
		return lo.UniqBy(lo.Filter(templates, func(t *cloudstack.Template, _ int) bool { return t.Zoneid == "" || t.Zoneid == zoneID }),
			func(t *cloudstack.Template) string { return t.Id }), nil
	})
	return templates, errors.Wrapf(err, "list the templates of zone %s", zoneID)
}

// newestFirst orders templates. Those whose time cannot be read are the oldest; the id decides where nothing else does.
func newestFirst(a, b *cloudstack.Template) int {
	atA, _ := cloudstack.Created(a.Created)
	atB, _ := cloudstack.Created(b.Created)
	return cmp.Or(atB.Compare(atA), strings.Compare(b.Id, a.Id))
}

// GetByName implements Provider.
func (p *DefaultProvider) GetByName(ctx context.Context, scope cloudstack.Scope, zoneID, name string) (*cloudstack.Template, error) {
	return p.one(ctx, scope, zoneID, name, func(t *cloudstack.Template) bool { return t.Name == name && t.Isready })
}

// GetByID implements Provider.
func (p *DefaultProvider) GetByID(ctx context.Context, scope cloudstack.Scope, zoneID, id string) (*cloudstack.Template, error) {
	return p.one(ctx, scope, zoneID, id, func(t *cloudstack.Template) bool { return t.Id == id })
}

func (p *DefaultProvider) one(
	ctx context.Context, scope cloudstack.Scope, zoneID, what string, fits func(*cloudstack.Template) bool,
) (*cloudstack.Template, error) {
	return selector.Look(ctx, func(ctx context.Context, maxAge time.Duration) (*cloudstack.Template, error) {
		templates, err := p.list(ctx, scope, zoneID, maxAge)
		if err != nil {
			return nil, err
		}
		if found, ok := lo.Find(templates, fits); ok {
			return found, nil
		}
		return nil, selector.Errorf(selector.ReasonNotFound, "zone %s has no template %q; it has %s", zoneID, what, names(templates))
	})
}

// GetByTags implements Provider.
func (p *DefaultProvider) GetByTags(
	ctx context.Context, scope cloudstack.Scope, zoneID string, tags map[string]string,
) ([]*cloudstack.Template, error) {
	templates, err := p.list(ctx, scope, zoneID, ttl)
	if err != nil {
		return nil, err
	}
	return lo.Filter(templates, func(t *cloudstack.Template, _ int) bool {
		return t.Isready && len(tags) > 0 && selector.MatchTags(cloudstack.TagsOf(t.Tags), tags)
	}), nil
}

// Resolve implements Provider.
func (p *DefaultProvider) Resolve(ctx context.Context, nodeClass *csv1.CloudStackNodeClass, zones []csv1.ZoneStatus) ([]csv1.TemplateStatus, error) {
	terms, err := compile(nodeClass.Spec.TemplateSelectorTerms)
	if err != nil {
		return nil, err
	}
	return selector.Look(ctx, func(ctx context.Context, maxAge time.Duration) ([]csv1.TemplateStatus, error) {
		var statuses []csv1.TemplateStatus
		var missing []string
		reason := selector.ReasonNotFound
		for _, zone := range zones {
			templates, err := p.list(ctx, selector.Scope(nodeClass), zone.ID, maxAge)
			if err != nil {
				return nil, err
			}
			chosen, problem, because := resolve(terms, zone, templates)
			if problem != "" {
				missing, reason = append(missing, problem), because
			}
			statuses = append(statuses, chosen...)
		}
		if len(missing) > 0 {
			return nil, selector.Errorf(reason, "%s", strings.Join(missing, "; "))
		}
		return statuses, nil
	})
}

// resolve chooses the newest template of each architecture, in the order of the architectures.
func resolve(terms []term, zone csv1.ZoneStatus, templates []*cloudstack.Template) (chosen []csv1.TemplateStatus, problem, reason string) {
	const field = "spec.templateSelectorTerms"
	byArchitecture := map[string]csv1.TemplateStatus{}
	var notReady, strange []string
	for _, t := range templates {
		if !slices.ContainsFunc(terms, func(one term) bool { return one.fits(t) }) {
			continue
		}
		architecture, known := Architecture(t)
		switch _, taken := byArchitecture[architecture]; {
		case !known:
			strange = append(strange, fmt.Sprintf("%s (%s)", t.Name, t.Arch))
		case !t.Isready:
			notReady = append(notReady, t.Name)
		case !taken:
			byArchitecture[architecture] = csv1.TemplateStatus{ID: t.Id, Name: t.Name, ZoneID: zone.ID, Architecture: architecture}
		}
	}
	for _, architecture := range slices.Sorted(maps.Keys(byArchitecture)) {
		chosen = append(chosen, byArchitecture[architecture])
	}
	switch {
	case len(chosen) > 0:
		return chosen, "", ""
	case len(notReady) > 0:
		return nil, fmt.Sprintf("%s selects %s in zone %q, not ready yet: wait for the copy to the zone, or look into it", field,
			selector.Names(notReady), zone.Name), selector.ReasonNotUsable
	case len(strange) > 0:
		return nil, fmt.Sprintf("%s selects %s in zone %q: the architecture has to be amd64 or arm64", field,
			selector.Names(strange), zone.Name), selector.ReasonNotUsable
	default:
		return nil, fmt.Sprintf("%s selects no template of zone %q; the zone has %s", field, zone.Name, names(templates)), selector.ReasonNotFound
	}
}

// Architecture is that of a template as Kubernetes names it, and whether nodes can be of it. CloudStack before 4.20 does not tell it:
// such templates are taken for amd64.
func Architecture(t *cloudstack.Template) (string, bool) {
	switch strings.ToLower(t.Arch) {
	case "", "x86_64", "amd64":
		return karpv1.ArchitectureAmd64, true
	case "aarch64", "arm64":
		return karpv1.ArchitectureArm64, true
	default:
		return t.Arch, false
	}
}

// term is a term with its pattern compiled.
type term struct {
	csv1.TemplateSelectorTerm
	pattern *regexp.Regexp
}

func compile(terms []csv1.TemplateSelectorTerm) ([]term, error) {
	var compiled []term
	for i, one := range terms {
		t := term{TemplateSelectorTerm: one}
		if one.NameRegex != "" {
			var err error
			if t.pattern, err = selector.Pattern(fmt.Sprintf("spec.templateSelectorTerms[%d].nameRegex", i), one.NameRegex); err != nil {
				return nil, err
			}
		}
		compiled = append(compiled, t)
	}
	return compiled, nil
}

func (t term) fits(template *cloudstack.Template) bool {
	empty := t.ID == "" && t.Name == "" && t.NameRegex == "" && len(t.Tags) == 0
	architecture, _ := Architecture(template)
	return !empty &&
		(t.ID == "" || t.ID == template.Id) &&
		(t.Name == "" || t.Name == template.Name) &&
		(t.pattern == nil || t.pattern.MatchString(template.Name)) &&
		(t.Architecture == "" || t.Architecture == architecture) &&
		selector.MatchTags(cloudstack.TagsOf(template.Tags), t.Tags)
}

func names(templates []*cloudstack.Template) string {
	return selector.Names(lo.Map(templates, func(t *cloudstack.Template, _ int) string { return t.Name }))
}
