// Command gcp-controller plays a controller for Google Cloud against the public contract of a NodePools service, with nothing but HTTP and
// JSON: the service keeps what people want, the controller makes it and reports. Its cloud is a counter in its memory, so it needs no
// account; a real one would call Google's API where this one counts.
//
//	gcp-controller -server http://127.0.0.1:8080 -user gcp-controller@example.com
//
// The bearer token, where the service wants one, is read from the environment variable NODEPOOLS_TOKEN.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:8080", "URL of the service")
	user := flag.String("user", "", "email address to send as X-User-Email, to a service in development mode")
	step := flag.Duration("step", 500*time.Millisecond, "how long the cloud takes to make or delete a node")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &controller{
		api:   &api{server: *server, user: *user, token: os.Getenv("NODEPOOLS_TOKEN")},
		cloud: &cloud{step: *step, nodes: map[string]int{}},
		poll:  10 * time.Second,
		log:   log.New(os.Stderr, "", log.LstdFlags),
	}
	if err := c.run(ctx); err != nil && ctx.Err() == nil {
		c.log.Print(err)
		stop()
		os.Exit(1)
	}
}
