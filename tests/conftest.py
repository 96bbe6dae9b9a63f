"""Property tests have no deadline: a busy machine is not a wrong number."""

import pytest
from hypothesis import settings

settings.register_profile("embviz", deadline=None)
settings.load_profile("embviz")


@pytest.fixture
def one_thread():
    """PyTorch on one thread: with more, sums have other bits, and waiting threads spin."""
    import torch  # most tests do without

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
