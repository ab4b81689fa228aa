package digitalocean

import (
	"net/http"
	"regexp"
	"sync"
	"time"
)

// getAccount answers about the account. Its numbers are those of a fresh one.
func (c *Cloud) getAccount(*http.Request) (reply, error) {
	return respond(http.StatusOK, "account", map[string]any{
		"droplet_limit":     maxNodes,
		"floating_ip_limit": 3,
		"reserved_ip_limit": 3,
		"volume_limit":      100,
		"email":             "emulated@example.com",
		"name":              "Emulated Account",
		"uuid":              "00000000-0000-4000-8000-000000000001",
		"email_verified":    true,
		"status":            "active",
		"status_message":    "",
		"team":              map[string]string{"uuid": "00000000-0000-4000-8000-000000000002", "name": "Emulated Team"},
	}), nil
}

// getOptions answers what clusters can be made of.
func (c *Cloud) getOptions(*http.Request) (reply, error) {
	versions := view(c, func(s *state, _ time.Time) []version { return describeVersions(s.Versions) })
	sizes := make([]map[string]string, 0, len(nodeSizes))
	for _, size := range nodeSizes {
		sizes = append(sizes, map[string]string{"name": size, "slug": size})
	}
	return respond(http.StatusOK, "options", map[string]any{
		"versions": versions, "regions": regions, "sizes": sizes,
	}), nil
}

// registryName is the form of the names of container registries.
var registryName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`) })

func errNoRegistry() error { return notFound("registry does not exist") }

func (c *Cloud) getRegistry(*http.Request) (reply, error) {
	object := c.Registry()
	if object == nil {
		return reply{}, errNoRegistry()
	}
	return respond(http.StatusOK, "registry", object), nil
}

func (c *Cloud) createRegistry(r *http.Request) (reply, error) {
	request, err := read[struct {
		Name   string `json:"name"`
		Region string `json:"region"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	object, err := change(c, func(s *state, now time.Time) (Registry, error) {
		if !registryName().MatchString(request.Name) {
			return Registry{}, invalid("registry name %q must be lower-case letters, digits and '-'", request.Name)
		}
		if s.Registry != nil {
			return Registry{}, conflict("the account already has a registry")
		}
		place := region{Slug: "nyc3"}
		if request.Region != "" {
			var ok bool
			if place, ok = regionNamed(request.Region); !ok {
				return Registry{}, invalid("invalid region %q", request.Region)
			}
		}
		s.Registry = &Registry{Name: request.Name, Region: place.Slug, CreatedAt: now.Truncate(time.Second)}
		return *s.Registry, nil
	})
	return respond(http.StatusCreated, "registry", object), err
}

func (c *Cloud) deleteRegistry(*http.Request) (reply, error) {
	_, err := change(c, func(s *state, _ time.Time) (any, error) {
		if s.Registry == nil {
			return nil, errNoRegistry()
		}
		s.Registry = nil
		for _, cluster := range s.Clusters {
			cluster.RegistryEnabled = false
		}
		return nil, nil
	})
	return reply{status: http.StatusNoContent}, err
}

func (c *Cloud) addRegistryToClusters(r *http.Request) (reply, error) {
	return c.integrateRegistry(r, true)
}

func (c *Cloud) removeRegistryFromClusters(r *http.Request) (reply, error) {
	return c.integrateRegistry(r, false)
}

// integrateRegistry lets clusters pull from the account's registry, or no longer. One unknown cluster fails the request.
func (c *Cloud) integrateRegistry(r *http.Request, enabled bool) (reply, error) {
	request, err := read[struct {
		ClusterUUIDs []string `json:"cluster_uuids"`
	}](r)
	if err != nil {
		return reply{}, err
	}
	_, err = change(c, func(s *state, now time.Time) (any, error) {
		if s.Registry == nil {
			return nil, errNoRegistry()
		}
		for _, id := range request.ClusterUUIDs {
			cluster, err := s.cluster(id)
			if err != nil {
				return nil, err
			}
			cluster.RegistryEnabled = enabled
			cluster.touch(now)
		}
		return nil, nil
	})
	return reply{status: http.StatusNoContent}, err
}
