package main

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/plantonhq/project-planton/pkg/manifest"
	"github.com/plantonhq/project-planton/pkg/validation"
)

// perFile is how many manifests a file holds at most.
const perFile = 100

// clusters are n manifests of a kind that uses most of what a manifest can say, in files.
func clusters(n int) [][]byte {
	var files [][]byte
	for start := 0; start < n; start += perFile {
		files = append(files, []byte(clustersOfFile(start, min(start+perFile, n))))
	}
	return files
}

func clustersOfFile(start, end int) string {
	var text strings.Builder
	for i := start; i < end; i++ {
		fmt.Fprintf(&text, `---
apiVersion: civo.project-planton.org/v1
kind: CivoKubernetesCluster
metadata: {name: cluster-%d, org: acme, env: dev}
spec:
  clusterName: cluster-%d
  region: fra1
  kubernetesVersion: 1.29.0+k3s1
  network: {valueFrom: {name: main}}
  defaultNodePool: {name: system, size: g4s.kube.small, nodeCount: 1}
  tags: [env:dev, team:platform]
`, i, i)
	}
	return text.String()
}

// vpcs are n manifests that do not refer to one another.
func vpcs(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "---\napiVersion: civo.project-planton.org/v1\nkind: CivoVpc\nmetadata: {name: net-%d}\n"+
			"spec: {networkName: net-%d, region: lon1, ipRangeCidr: 10.%d.0.0/22}\n", i, i, i)
	}
	return text.String()
}

// manifests measures how fast manifests are read and checked, on one core.
func (p *printer) manifests(sizes []int) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rows := [][]string{{"manifests", "what", "a CPU second", "KiB allocated each", "KiB kept each"}}
	for _, n := range sizes {
		ways, err := readings(n)
		if err != nil {
			return err
		}
		for _, way := range ways {
			var rate, allocated, kept samples
			for range runs {
				// Few manifests are read several times over, so that a reading takes long enough to be timed.
				times := max(1, 500/n)
				before := memory()
				start := ownCPU()
				var result any
				for range times {
					if result, err = way.read(); err != nil {
						return errors.Wrap(err, way.name)
					}
				}
				elapsed := ownCPU() - start
				var after runtime.MemStats
				runtime.ReadMemStats(&after)
				live := memory()
				runtime.KeepAlive(result)
				each := float64(n * times)
				rate = append(rate, each/elapsed.Seconds())
				allocated = append(allocated, float64(after.TotalAlloc-before.TotalAlloc)/each/1024)
				kept = append(kept, max(0, float64(live.HeapAlloc)-float64(before.HeapAlloc))/float64(n)/1024)
			}
			rows = append(rows, []string{fmt.Sprint(n), way.name, rate.text("%.0f"), allocated.text("%.0f"), kept.text("%.0f")})
		}
	}
	p.table("Manifests (CivoKubernetesCluster, a hundred a file) on one core. Baselines: less than is needed", rows)
	return nil
}

// memory is the state of the heap after a collection.
func memory() runtime.MemStats {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats
}

// reading is one way to read manifests.
type reading struct {
	name string
	read func() (any, error)
}

// readings are the ways to read n manifests: ours, and two that do less.
func readings(n int) ([]reading, error) {
	files := clusters(n)
	parse := func() ([]*manifest.Manifest, error) {
		all := make([]*manifest.Manifest, 0, n)
		for _, file := range files {
			found, err := manifest.Parse("bench.yaml", file)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	}
	read, err := parse()
	if err != nil {
		return nil, err
	}
	documents := make([][]byte, n)
	for i, m := range read {
		if documents[i], err = protojson.Marshal(m.Target); err != nil {
			return nil, errors.Wrap(err, "write json")
		}
	}
	kind := read[0].Kind
	return []reading{
		{"manifest.Parse", func() (any, error) { return parse() }},
		{"baseline: protojson and protovalidate", func() (any, error) {
			all := make([]proto.Message, n)
			for i, document := range documents {
				all[i] = kind.NewTarget()
				if err := protojson.Unmarshal(document, all[i]); err != nil {
					return nil, errors.Wrap(err, "read json")
				}
				if err := validation.Validate(all[i]); err != nil {
					return nil, err
				}
			}
			return all, nil
		}},
		{"baseline: the YAML parse", func() (any, error) {
			all := make([]yaml.Node, n)
			decoder := yaml.NewDecoder(bytes.NewReader(nil))
			for i := range all {
				if i%perFile == 0 {
					decoder = yaml.NewDecoder(bytes.NewReader(files[i/perFile]))
				}
				if err := decoder.Decode(&all[i]); err != nil {
					return nil, errors.Wrap(err, "parse yaml")
				}
			}
			return all, nil
		}},
	}, nil
}
