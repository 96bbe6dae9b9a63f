"""Property tests have no deadline: a busy machine is not a wrong number."""

from hypothesis import settings

settings.register_profile("embviz", deadline=None)
settings.load_profile("embviz")
