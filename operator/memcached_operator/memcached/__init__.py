"""What is true of memcached itself, with or without Kubernetes: its command line and its protocol."""
