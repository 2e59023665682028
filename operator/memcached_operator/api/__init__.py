"""The `cache.example.com/v1alpha1` API: models, names, conditions, validation. Pure."""
