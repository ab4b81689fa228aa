// Package auth tells who makes a request, and what they may do.
package auth

import (
	"context"
	"slices"
)

// Role is what an identity may do.
type Role string

const (
	// Viewer reads what is theirs.
	Viewer Role = "viewer"
	// Editor reads and writes what is theirs.
	Editor Role = "editor"
	// Admin reads and writes everything but reports of controllers, forces deletions and reads the audit log.
	Admin Role = "admin"
	// ControllerRole reads objects of its platforms and reports about them under its names.
	ControllerRole Role = "controller"
)

// Identity is who makes a request.
type Identity struct {
	// Name is the user's email address, or the name of a service account. It owns what it creates.
	Name string
	// Role is what the identity may do.
	Role Role
	// Platforms are those that a controller may see and report about; nil is all.
	Platforms []string
	// Controllers are the names that a controller may report under; nil is all.
	Controllers []string
}

// SeesAll says whether the identity sees objects of every owner.
func (i Identity) SeesAll() bool { return i.Role == Admin || i.Role == ControllerRole }

// SeesPlatform says whether the identity sees objects of a platform.
func (i Identity) SeesPlatform(platform string) bool {
	return i.Role != ControllerRole || i.Platforms == nil || slices.Contains(i.Platforms, platform)
}

// ReportsAs says whether the identity may report under a controller's name.
func (i Identity) ReportsAs(controller string) bool {
	return i.Role == ControllerRole && (i.Controllers == nil || slices.Contains(i.Controllers, controller))
}

type identityKey struct{}

// NewContext returns a context of a request of the identity.
func NewContext(ctx context.Context, identity Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, identity)
}

// FromContext returns who makes the request; false when nobody is known.
func FromContext(ctx context.Context) (Identity, bool) {
	identity, ok := ctx.Value(identityKey{}).(Identity)
	return identity, ok
}
