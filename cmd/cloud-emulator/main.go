// Command cloud-emulator serves emulated clouds on this machine; see package internal/cloudemulator.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/plantonhq/project-planton/internal/cloudemulator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cloudemulator.Command().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}
