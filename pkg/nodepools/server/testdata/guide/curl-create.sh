curl -X POST "http://localhost:8080/api/v1/nodepools" \
  -H "Content-Type: application/json" \
  -H "X-User-Email: user@example.com" \
  -d '{
    "name": "production-workers",
    "cluster_id": "550e8400-e29b-41d4-a716-446655440000",
    "spec": {
      "platform": {
        "type": "gcp",
        "gcp": {
          "machineType": "n1-standard-4",
          "diskSize": 100,
          "diskType": "pd-ssd",
          "zones": ["us-central1-a", "us-central1-b"]
        }
      },
      "autoscaling": {
        "enabled": true,
        "minNodes": 2,
        "maxNodes": 10
      },
      "nodeCount": 3
    }
  }'
