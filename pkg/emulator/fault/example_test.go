package fault_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/civo/civogo"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/civo"
	"github.com/plantonhq/project-planton/pkg/emulator/fault"
)

// The answer to a create is lost after the work was done: the client fails, the network is there.
func Example() {
	cloud, faults, err := fault.New(civo.New, emulator.Options{}, fault.Plan{Faults: []fault.Fault{
		{Kind: fault.LostAnswer, Route: "POST /v2/networks", Count: 1},
	}})
	if err != nil {
		log.Fatal(err)
	}
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Close() }()

	client, err := civogo.NewClientWithURL("any-token", server.URL(), "LON1")
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.NewNetwork("main")
	network, lookupErr := client.FindNetwork("main")
	if lookupErr != nil {
		log.Fatal(lookupErr)
	}
	fmt.Println("create failed:", err != nil)
	fmt.Println("there is:", network.Label)
	fmt.Println("creates:", cloud.Count(http.MethodPost, "/v2/networks"))
	fmt.Println("struck:", faults.Strikes()[0].Kind)
	// Output:
	// create failed: true
	// there is: main
	// creates: 1
	// struck: lost_answer
}
