import dataclasses
import itertools

import pandas as pd
import pytest

from book.ledger import cells, load_runs
from book.ledger.places import results_folder

pytestmark = pytest.mark.usefixtures("results")


@dataclasses.dataclass(frozen=True)
class Text:
    corpus: str = "embedded"
    size: int = 9
    seed: int = 5


@dataclasses.dataclass(frozen=True)
class Model:
    seed: int
    kept: bool
    text: Text = Text()
    layers: tuple[int, ...] = (1, 2)
    size: int | None = None


@cells.experiment("testing.models")
def models(config):
    return pd.DataFrame({"step": [0, 1], "loss": [1.0, 0.5 + config.seed]})


@pytest.fixture
def stored(results):
    sweep = [models.cell(Model(seed, kept)) for kept, seed in itertools.product((True, False), (10, 2))]
    cells.run(sweep, n_jobs=1, progress=False)


def test_all_stored_runs_are_one_tidy_table(stored):
    table = load_runs("testing.models")
    fields = ["seed", "kept", "corpus", "text.size", "text.seed", "layers", "size"]
    assert list(table) == [*fields, "step", "loss"]
    # in the order of the fields, not of the files, whose names are arbitrary
    assert table["seed"].tolist() == [2] * 4 + [10] * 4
    assert table["kept"].tolist() == [False, False, True, True] * 2
    assert table["loss"].tolist() == [1.0, 2.5] * 2 + [1.0, 10.5] * 2
    assert set(table["layers"]) == {"(1, 2)"}
    assert table["size"].isna().all()
    assert [one["config"]["seed"] for one in table.attrs["provenance"]] == [2, 2, 10, 10]
    table["loss"] = 0.0  # a page may write to it
    assert load_runs("testing.models")["loss"].max() == 10.5


def test_runs_are_chosen_by_their_fields(stored):
    assert len(load_runs("testing.models", seed=2)) == 4
    assert len(load_runs("testing.models", seed=[2, 10, 11], kept=True)) == 4
    with pytest.raises(FileNotFoundError, match=r"seed': 3"):
        load_runs("testing.models", seed=3)
    with pytest.raises(ValueError, match="no field 'sead', but seed, kept"):
        load_runs("testing.models", seed=3, sead=2)


def test_a_field_that_is_also_a_column_stands_once():
    @cells.experiment("testing.clash")
    def clash(config):
        return pd.DataFrame({"seed": [config.seed] * 2, "corpus": ["of the table"] * 2})

    cells.compute(clash.cell(Model(3, kept=True)))
    table = load_runs("testing.clash")
    assert list(table)[:2] == ["kept", "text.corpus"]
    assert table["seed"].tolist() == [3, 3]
    assert set(table["corpus"]) == {"of the table"}


def test_an_unknown_name_tells_those_that_are_near(stored):
    assert not list(results_folder().glob("testing/model/*"))
    with pytest.raises(FileNotFoundError, match=r"testing\.models.*python -m book run"):
        load_runs("testing.model")
    with pytest.raises(FileNotFoundError, match=r"no run of 'models' is stored"):
        load_runs("models")
