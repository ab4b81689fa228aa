package digitalocean_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/digitalocean/godo"

	"github.com/plantonhq/project-planton/pkg/emulator"
	"github.com/plantonhq/project-planton/pkg/emulator/digitalocean"
)

// Clients of DigitalOcean work on an emulated account when they are pointed at its server.
func Example() {
	cloud, err := digitalocean.New(emulator.Options{Token: "a-token"})
	if err != nil {
		log.Fatal(err)
	}
	server, err := emulator.Listen("127.0.0.1:0", cloud)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Close() }()

	client, err := godo.New(http.DefaultClient, godo.SetBaseURL(server.URL()),
		godo.SetRequestHeaders(map[string]string{"Authorization": "Bearer a-token"}))
	if err != nil {
		log.Fatal(err)
	}
	cluster, _, err := client.Kubernetes.Create(context.Background(), &godo.KubernetesClusterCreateRequest{
		Name: "prod", RegionSlug: "fra1", VersionSlug: "1.31.1-do.4",
		NodePools: []*godo.KubernetesNodePoolCreateRequest{{Name: "default", Size: "s-2vcpu-4gb", Count: 3}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cluster.Name, cluster.Status.State)

	// The autoscaler takes a node away.
	if err := cloud.ScalePool(cluster.ID, cluster.NodePools[0].ID, 2); err != nil {
		log.Fatal(err)
	}
	fmt.Println(cloud.Clusters()[0].Pool("default").Count, "nodes")
	// Output:
	// prod running
	// 2 nodes
}
