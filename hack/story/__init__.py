"""What `make demo` tells: steps that type commands, show the cluster's answers, and check what they claim.

`screen` prints, `telling` runs steps, `rig` is the cluster with its operators, `kept` is what KEEP=1 leaves behind;
the steps themselves are in the modules that `chapters` lists.
"""
