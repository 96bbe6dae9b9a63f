"""What EXor's claims are judged by: criteria against slow loops, and an optimal model that fulfils them."""

import dataclasses
import itertools
import math

import numpy as np
import pandas as pd
import pytest
import torch

from book.members import Member
from book.tying.experiments import STUDIES, theorems
from book.tying.experiments import exor as study
from book.tying.experiments.exor_runs import EXorRun, FreshRun, exor, exor_ends, prepare
from book.tying.experiments.full_support import full_support
from book.tying.experiments.spellings import FreshSweep, Sweep, sweep_cells, sweep_session
from book.tying.languages.exor import MASK, ONE_A, ONE_B, ZERO_A, ZERO_B
from book.tying.models.encoders import Encoder
from embviz.ledger.cells import Cell, Experiment, compute
from embviz.ledger.claims import load_claims
from embviz.ledger.judging import judge

PRESET, SEEDS, STEPS = "quick", (20, 21, 22), range(0, 301, 20)
CLAIMS = {claim.id: claim for claim in load_claims("tying")}
pytestmark = pytest.mark.usefixtures("own_results")


def frame(values: dict[str, object], *, seeds=SEEDS, steps=STEPS) -> pd.DataFrame:
    """Curves with these columns; a function of (seed, tied, step), or a number."""
    keys = list(itertools.product(seeds, (False, True), steps))
    table = pd.DataFrame(keys, columns=["seed", "tied", "step"])
    for name, value in values.items():
        table[name] = [value(*key) if callable(value) else value for key in keys]
    return table


def store(cell: Cell, table: pd.DataFrame) -> None:
    told = Experiment(cell.experiment.name, cell.experiment.version, lambda config: table)
    compute(Cell(told, cell.config), cell.path)


# --- fresh seeds ----------------------------------------------------------------------------------------


def test_fresh_runs_have_seeds_that_no_first_run_of_their_kind_had():
    for first, fresh in (
        (study.MAIN, study.FRESH_MAIN),
        (study.LSTM, study.FRESH_LSTM),
        (study.MIXER, study.FRESH_MIXER),
        (study.ZEROS, study.MORE_ZEROS),
        (theorems.NO_DECAY, theorems.FRESH_NO_DECAY),
        (theorems.NO_DECAY, theorems.MANY),
        (theorems.FRESH_NO_DECAY, theorems.MANY),
    ):
        assert not set(fresh.seeds) & set(first.seeds)
        few = prepare(dataclasses.replace(fresh, n_seeds=2))
        assert {member.seed for member in few.members} <= set(fresh.seeds)
    assert list(study.AUTHORS.seeds) == [42, 43, 44, 45, 46]


def test_a_fresh_seed_starts_as_a_first_one_would_and_trains_at_the_papers_rates():
    fresh = prepare(FreshRun(n_steps=4, n_seeds=1, first_seed=2))
    plain = prepare(EXorRun(n_steps=4, n_seeds=3))
    for name, array in fresh.model.weights.items():
        rows = slice(2, 3) if name == "free_output" else slice(4, 6)
        assert torch.equal(array, plain.model.weights[name][rows])
    assert fresh.optimizer == plain.optimizer
    assert prepare(study.LARGER_PROGRAM).optimizer.min_learning_rate == 1e-5


def test_the_programs_order_draws_both_embeddings_first_and_ties_them_afterwards():
    session = prepare(FreshRun(n_seeds=1, first_seed=42, drawn="program"))
    torch.manual_seed(42)
    read, answer = torch.nn.Embedding(7, 4), torch.nn.Embedding(7, 4)
    layer = torch.nn.TransformerEncoderLayer(4, 1, 4, dropout=0.0, activation="gelu", batch_first=True)
    untied, tied = (session.model.member(index) for index in range(2))
    for model in (untied, tied):
        assert torch.equal(model.input_embedding, read.weight)
        for name, array in layer.state_dict().items():
            assert torch.equal(model.body.layers[0].state_dict()[name], array)
    assert torch.equal(untied.output_embedding, answer.weight)
    assert tied.free_output is None
    ours = Encoder(session.model.config, tied=True, seed=42)
    assert not torch.equal(tied.body.layers[0].linear1.weight, ours.body.layers[0].linear1.weight)


def test_a_fresh_sweep_is_the_first_one_with_other_seeds():
    fresh, first = sweep_session(FreshSweep(n_seeds=2)), sweep_session(Sweep(n_seeds=2))
    assert fresh.optimizer == first.optimizer
    assert fresh.members == tuple(Member(seed, tied) for seed in (8, 9) for tied in (False, True))


# --- runs that solve the task ---------------------------------------------------------------------------


def test_a_run_solves_the_task_if_it_ends_near_the_optimum():
    table = frame(
        {"loss_gap": lambda seed, tied, step: 1.0 if step < 300 else {20: 0.1, 21: 0.2}.get(seed, 0)}
    )
    assert study.solved(table[~table["tied"]]).to_dict() == {20: True, 21: False, 22: True}


def test_a_perfect_model_has_no_gap_and_holds_where_the_first_optimum_made_it_fail():
    best = study.best_accuracy(study.EXor())
    perfect = {"loss_gap": lambda seed, tied, step: 1.0 if seed == 24 else 0.0}
    perfect["accuracy"] = lambda seed, tied, step: 0.5 if seed == 24 else best - 0.01 * tied
    found = study._of_those_that_solve(frame(perfect, seeds=range(20, 25)))
    assert verdict("tying.accuracy", "untied_gap_solved", found) == "reproduced"
    assert found["untied_gap_solved"].controls["unsolved"] == pytest.approx(best - 0.5)
    assert found["tied_minus_untied_solved"].value == pytest.approx(-0.01)


def verdict(claim: str, name: str, found) -> str:
    """What the claims file says of this finding."""
    (measurement,) = (one for one in CLAIMS[claim].measurements if one.name == name)
    return judge(measurement, found[name]).verdict


def test_shares_count_runs_at_the_limit_too_and_their_difference_is_paired():
    table = frame({"loss_gap": lambda seed, tied, step: study.SOLVED if tied or seed == 20 else 1.0})
    found = study.shares(table)
    assert (found["untied_solved"].value, found["tied_solved"].value) == (pytest.approx(1 / 3), 1.0)
    assert found["more_solved"].value == pytest.approx(-2 / 3)


def test_an_unpaired_difference_has_students_interval_of_the_smaller_group():
    a, b = pd.Series([1.0, 2.0, 4.0]), pd.Series([0.0, 1.0, 2.0, 3.0])
    finding = study.difference(a, b)
    half = 4.302653 * math.sqrt(a.var() / 3 + b.var() / 4)
    assert (finding.value, finding.n_seeds) == (pytest.approx(a.mean() - b.mean()), 3)
    assert finding.high - finding.value == pytest.approx(half, rel=1e-5)
    assert study.difference(a, b[:1]) is None


def test_what_a_distance_follows_is_asked_of_the_runs_near_the_optimum_alone():
    gaps, ratios = [0.001, 0.002, 0.003, 0.01, 0.011, 2.0], [0.1, 0.2, 0.3, 0.4, 9.0, 0.0]
    ends = pd.DataFrame(
        {"loss_gap": gaps, "relative_output_11": ratios, "span": [0.4, 0.3, 0.2, 0.1, 9.0, 9.0]}
    )
    found = theorems.followed(ends)
    assert theorems.near_share(ends).value == pytest.approx(4 / 6)
    assert (found["near_span"].value, found["near_loss"].value) == (pytest.approx(-1.0), pytest.approx(1.0))
    assert found["near_loss"].n_seeds == 4
    assert theorems.followed(ends[2:]) == {}, "two runs near the optimum have no order"


# --- apart ----------------------------------------------------------------------------------------------


def optimal_session():
    """A model whose output embedding, made by hand, gives the exact differences of logits."""
    session = prepare(FreshRun(n_steps=2, n_seeds=1))
    session.model.double()
    with torch.no_grad():
        output = session.model.arrays["free_output"][0]
        output.zero_()
        # the encoding is the bias, whatever is read
        session.model.arrays["body/layers/0/norm2/weight"].zero_()
        session.model.arrays["body/layers/0/norm2/bias"].copy_(torch.tensor([1.0, 0, 0, 0]).expand(2, -1))
        output[ZERO_B, 0] = math.log(9)
        output[ONE_A, 0] = output[ONE_B, 0] = -3.0
    return session


def test_the_logits_of_a_model_with_exact_spellings_differ_by_ln_9_and_hold():
    session = optimal_session()
    with torch.no_grad():
        measured = session.gauge.measure(0)
    assert measured["logit_00"][0] == pytest.approx(math.log(9))
    assert measured["logit_11"][0] == pytest.approx(0.0, abs=1e-12)
    start = {"logit_00": 0.0, "logit_11": 1.0, "output_00": 1.0, "output_11": 1.0}
    table = frame(start)
    for name in start:
        table.loc[table["step"] > 0, name] = measured[name][0]
    found = study.apart(table)
    for name in ("logit_00", "ones_over_zeros"):
        assert verdict("tying.untied_output", name, found) == "reproduced"


def test_logit_gaps_are_means_over_the_contexts_that_ask_for_the_bit():
    session = prepare(FreshRun(n_steps=2, n_seeds=1))
    session.model.double()
    gauge = session.gauge
    with torch.no_grad():
        found = gauge.scores()
        for index in range(2):
            logits = session.model.member(index).double()(gauge.contexts)
            gaps: dict[str, list[float]] = {"00": [], "11": []}
            for tokens, rows, exact in zip(
                gauge.contexts.tolist(), logits.tolist(), gauge.exact.tolist(), strict=True
            ):
                row, (pair, a, b) = rows[tokens.index(MASK)], ("00", ZERO_A, ZERO_B)
                if exact[ONE_A] > 0:
                    pair, a, b = "11", ONE_A, ONE_B
                gaps[pair].append(row[b] - row[a])
            for pair, values in gaps.items():
                assert float(found[f"logit_{pair}"][index]) == pytest.approx(np.mean(values), abs=1e-6)


def test_the_loss_on_twelve_strings_is_their_mean_cross_entropy():
    session = prepare(FreshRun(n_steps=2, n_seeds=1))
    gauge = session.gauge
    with torch.no_grad():
        found = gauge.scores()["sampled_loss"][0]
        logits = session.model.member(0)(gauge.sample).log_softmax(-1)
    slow = [
        -float(rows[tokens.index(MASK)][answer])
        for tokens, rows, answer in zip(gauge.sample.tolist(), logits, gauge.answers.tolist(), strict=True)
    ]
    assert len(slow) == 12
    assert float(found) == pytest.approx(np.mean(slow), rel=1e-5)


# --- overfitting ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strings", "trained", "expected"),
    [
        (lambda step: abs(step - 100) / 1000, lambda step: 1 - step / 1000, True),
        (lambda step: abs(step - 100) / 1000, lambda step: step / 1000, False),  # the whole model gets worse
        (lambda step: 1 - step / 1000, lambda step: 1 - step / 1000, False),
        (lambda step: abs(step - 100) / 10_000, lambda step: 1 - step / 1000, False),  # too little
    ],
)
def test_a_run_overfits_if_only_the_loss_on_the_twelve_strings_rises(strings, trained, expected):
    values = {
        "sampled_loss": lambda seed, tied, step: strings(step),
        "train_loss_gap": lambda seed, tied, step: trained(step),
        **dict.fromkeys(("relative_input_11", "relative_output_11"), lambda s, t, step: 1 - step / 300),
    }
    table = frame(values)
    found = study.overfitting(table[~table["tied"]])
    assert found["overfits"].tolist() == [expected] * 3
    if expected:
        assert found["lowest"].tolist() == [100.0] * 3
        assert found["aligned"].tolist() == [240.0] * 3


def overfits(rise: float, *, from_step: int = 90, only_at: int | None = None) -> bool:
    """Whether a run overfits whose loss on the twelve strings is higher at the end of training."""

    def strings(seed, tied, step):
        return 1 + rise * (step >= from_step if only_at is None else step == only_at)

    values = {"sampled_loss": strings, "train_loss_gap": lambda seed, tied, step: 1 - step / 200}
    values |= dict.fromkeys(("relative_input_11", "relative_output_11"), 1.0)
    steps = range(0, 1001, 5) if from_step > 100 else range(0, 101, 5)
    table = frame(values, seeds=[0], steps=steps)
    return bool(study.overfitting(table[table["tied"]])["overfits"].all())


def test_a_run_overfits_by_the_mean_of_its_last_tenth():
    assert not overfits(3.4 * study.RISE, only_at=100)  # 0.89 of the rise; the highest of them is 1.1
    assert not overfits(0.9 * study.RISE)
    assert overfits(1.5 * study.RISE, from_step=880)
    assert overfits(1.05 * study.RISE, from_step=880)  # from 0.5 on the mean would be a fifth of it


# --- times ----------------------------------------------------------------------------------------------


def test_arrivals_never_is_infinite_and_the_last_step_is_none():
    table = frame(
        {"close": lambda seed, tied, step: {20: 1 - step / 300, 21: 1.0}.get(seed, 0.3 * (step < 300))}
    )
    found = study.arrivals(table[~table["tied"]], ["close"])
    assert found.to_dict() == {20: 240.0, 21: math.inf, 22: 300.0}


def test_a_ratio_of_medians_is_not_paired_and_counts_never_as_later():
    mine, theirs = pd.Series([10.0, 20.0, math.inf]), pd.Series([40.0, 40.0, 40.0, 40.0])
    finding = study.ratio_of_medians(mine, theirs)
    assert (finding.value, finding.n_seeds) == (0.5, 3)
    assert finding.low == 0.25
    assert finding.high == math.inf
    nobody = pd.Series([math.inf] * 3)
    assert study.ratio_of_medians(nobody, nobody).value == 1.0
