"""Measurements of the operator: what a build must hold without timing anything, and a race against its peers."""
