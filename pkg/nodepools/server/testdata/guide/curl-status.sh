# Check nodepool status
curl -H "X-User-Email: user@example.com" \
  "http://localhost:8080/api/v1/nodepools/123e4567-e89b-12d3-a456-426614174000/status"
