package service

import (
	"context"

	"github.com/plantonhq/project-planton/pkg/nodepools/auth"
	"github.com/plantonhq/project-planton/pkg/nodepools/store"
)

// reader returns who makes a request. Everyone who is known may read what they see.
func reader(ctx context.Context) (auth.Identity, error) {
	who, ok := auth.FromContext(ctx)
	if !ok || who.Name == "" {
		return auth.Identity{}, fail(ReasonUnauthenticated, "authentication is required", "")
	}
	return who, nil
}

// writer returns who makes a request that changes what is wanted.
func writer(ctx context.Context) (auth.Identity, error) {
	who, err := reader(ctx)
	switch {
	case err != nil:
		return who, err
	case who.Role == auth.Editor || who.Role == auth.Admin:
		return who, nil
	case who.Role == auth.ControllerRole:
		return who, forbidden("controllers report status; they do not write what is wanted")
	default:
		return who, forbidden("the role " + string(who.Role) + " does not write")
	}
}

// administrator returns who makes a request that only administrators may make.
func administrator(ctx context.Context, what string) (auth.Identity, error) {
	who, err := reader(ctx)
	if err == nil && who.Role != auth.Admin {
		err = forbidden("only administrators may " + what)
	}
	return who, err
}

// sees says whether an identity sees an object. What it does not see is not there for it.
func sees(who auth.Identity, record store.Record) bool {
	if who.SeesAll() {
		return who.SeesPlatform(record.Platform)
	}
	return record.Owner == who.Name
}

// ownerFilter is the owner whose objects a list is restricted to; "" when it is not.
func ownerFilter(who auth.Identity) string {
	if who.SeesAll() {
		return ""
	}
	return who.Name
}

// platformFilter are the platforms that a list is restricted to; nil when it is not. None is true when it can hold nothing.
func platformFilter(who auth.Identity, wanted string) (platforms []string, none bool) {
	if wanted != "" {
		return []string{wanted}, !who.SeesPlatform(wanted)
	}
	if who.Role == auth.ControllerRole && who.Platforms != nil {
		return who.Platforms, len(who.Platforms) == 0
	}
	return nil, false
}
