"""Building the book again: what an interrupted build leaves is not built upon."""

import contextlib

from book import build


def test_after_a_build_that_did_not_end_well_the_next_begins_afresh(monkeypatch, tmp_path):
    fresh: list[bool] = []
    (tmp_path / "_build").mkdir()

    def stub(*_, freshenv, **__):
        fresh.append(freshenv)
        if len(fresh) == 3:
            raise KeyboardInterrupt
        return int(len(fresh) == 5)

    monkeypatch.setattr(build, "build_sphinx", stub)
    for _ in range(6):
        with contextlib.suppress(KeyboardInterrupt):
            build.build(tmp_path, tmp_path, jobs=1)
    assert fresh == [True, False, False, True, False, True]
