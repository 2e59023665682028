"""Writes all that is derived from the models and tables: CRD, RBAC, reference. Never imported by the operator."""
