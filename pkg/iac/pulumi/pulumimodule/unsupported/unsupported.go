// Package unsupported tells the user of fields that a platform has no way to honour.
package unsupported

import (
	"fmt"

	"github.com/pkg/errors"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// Warn logs one warning that the field has no effect, and why. The field path is that of the manifest, such as
// "spec.auto_upgrade". An error means that the engine could not be told.
func Warn(ctx *pulumi.Context, fieldPath, reason string) error {
	return errors.Wrapf(ctx.Log.Warn(fmt.Sprintf("%s has no effect: %s", fieldPath, reason), nil),
		"warn of %s", fieldPath)
}
