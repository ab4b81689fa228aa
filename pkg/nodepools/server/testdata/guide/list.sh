curl -H "X-User-Email: user@example.com" \
  "http://localhost:8080/api/v1/nodepools?limit=10&status=Ready"
