"""The Kubernetes API as this operator uses it: credentials from the official client, raw JSON in and out."""
