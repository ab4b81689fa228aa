// Package program is the main of every Pulumi program of this project: it finds the stack input, checks it, and hands it to
// the module.
package program

import (
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/iac/pulumi/pulumimodule/stackinput"
)

// Run is all that the main function of a program does. It does not return when the program fails: as pulumi.Run, it ends
// the process after the engine was told.
//
//	func main() { program.Run(module.Resources) }
func Run[T any, M interface {
	*T
	proto.Message
}](resources func(*pulumi.Context, M) error) {
	pulumi.Run(Func[T, M](resources))
}

// Func is the program that Run runs, for callers that have a runner of their own, such as the Automation API or a test.
func Func[T any, M interface {
	*T
	proto.Message
}](resources func(*pulumi.Context, M) error) pulumi.RunFunc {
	return func(ctx *pulumi.Context) error {
		stackInput := M(new(T))
		if err := stackinput.Load(ctx, stackInput); err != nil {
			return err
		}
		return resources(ctx, stackInput)
	}
}
