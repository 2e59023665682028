"""Property tests try the same examples every time, so that a change is blamed for what it did and for nothing else.

`--hypothesis-profile=explore` tries others each time.
"""

from hypothesis import settings

settings.register_profile("repeat", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("repeat")
