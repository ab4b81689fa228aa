curl -X PUT "http://localhost:8080/api/v1/nodepools/123e4567-e89b-12d3-a456-426614174000" \
  -H "Content-Type: application/json" \
  -H "X-User-Email: user@example.com" \
  -d '{
    "name": "production-workers",
    "spec": {
      "platform": {
        "type": "gcp",
        "gcp": {
          "machineType": "n1-standard-4",
          "diskSize": 100
        }
      },
      "nodeCount": 6
    }
  }'
