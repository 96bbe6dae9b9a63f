"""Models of others, read and measured: tiny ones with random weights, from configurations; no downloads."""

import itertools
import json
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
import torch
from nbclient import NotebookClient
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from torch import nn

from embviz import memory, view
from embviz.cli import main
from embviz.corpora import corpus_from_tokens, make_corpus
from embviz.inspection import causal_models, inspect, read_weights
from embviz.inspection.measures import order_measures, paired_measures, spectrum_measures
from embviz.inspection.roles import attention_maps, heads_of
from embviz.view.reports import plot_spectrum_by_rank

V, D, H, W, KV = 60, 16, 4, 4, 2
HOSTILE = "</script><script>alert(1)</script>"

pytestmark = pytest.mark.usefixtures("one_thread")


SIZES = {"vocab_size": V, "hidden_size": D, "intermediate_size": 24, "num_hidden_layers": 2}


def gpt2(**options):
    import transformers as tf

    shape = {"vocab_size": V, "n_positions": 34, "n_embd": D, "n_layer": 2, "n_head": H, **options}
    torch.manual_seed(0)
    return tf.GPT2LMHeadModel(tf.GPT2Config(bos_token_id=0, eos_token_id=0, **shape))


def llama(**options):
    import transformers as tf

    torch.manual_seed(0)
    config = tf.LlamaConfig(**SIZES, num_attention_heads=H, num_key_value_heads=KV, **options)
    return tf.LlamaForCausalLM(config)


def neox():
    import transformers as tf

    torch.manual_seed(0)
    return tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**SIZES, num_attention_heads=H))


def notes(report):
    return " ".join(report.table["note"])


def maps_of(source):
    weights = read_weights(source)
    return {(one.kind, one.layer): one.array.read() for one in attention_maps(weights, *heads_of(weights))}


# --- queries, keys and values -----------------------------------------------------------------------


@pytest.mark.parametrize("make", [gpt2, llama, neox])
def test_queries_keys_and_values_are_those_that_the_model_computes(make):
    """The products with a layer's input are what the model's own attention gets, head by head."""
    model = make().eval()
    found = maps_of(model)
    tf_name = type(model).__name__
    x = torch.randn(1, 5, D)
    with torch.no_grad():
        if tf_name == "GPT2LMHeadModel":
            layer = model.transformer.h[1].attn.c_attn
            own = (layer(x) - layer.bias).split(D, dim=2)
        elif tf_name == "LlamaForCausalLM":
            attention = model.model.layers[1].self_attn
            own = (attention.q_proj(x), attention.k_proj(x), attention.v_proj(x))
        else:
            layer = model.gpt_neox.layers[1].attention.query_key_value
            by_head = (layer(x) - layer.bias).view(1, 5, H, 3 * W).chunk(3, dim=-1)  # as its forward cuts
            own = [part.reshape(1, 5, D) for part in by_head]
    for kind, expected in zip("QKV", own, strict=True):
        ours = x.numpy() @ found[kind, 1].T
        np.testing.assert_allclose(ours, expected.numpy(), rtol=0, atol=1e-5)  # float32 sums


def test_a_torch_encoder_is_read_with_its_heads():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, H, 24, batch_first=True), 2)
    found = maps_of(encoder)
    own = encoder.layers[0].self_attn.in_proj_weight.detach().numpy()
    np.testing.assert_array_equal(found["K", 0], own[D : 2 * D])
    report = inspect(encoder)
    assert not report.vocab_size
    assert report.table["head"].max() == H - 1
    assert "no embedding" in notes(report)


def test_queries_that_alternate_by_head_are_not_guessed_at():
    state = {name: value for name, value in neox().state_dict().items()}
    assert "give n_heads" in notes(inspect(state))
    assert inspect(state, n_heads=H).table["head"].notna().any()


# --- tied or not ------------------------------------------------------------------------------------


class Mine(nn.Module):
    """A subclass of nothing, with names of its own."""

    def __init__(self, tied):
        super().__init__()
        self.words = nn.Embedding(V, D)
        self.head = nn.Linear(D, V, bias=False)
        if tied:
            self.head.weight = self.words.weight


@pytest.mark.parametrize(
    ("make", "tied"),
    [
        (gpt2, True),
        (llama, False),
        (lambda: gpt2().transformer, None),
        (lambda: Mine(False), False),
        (lambda: Mine(True), True),
        (lambda: torch.compile(gpt2(), backend="eager"), True),
        (lambda: llama().bfloat16(), False),
    ],
)
def test_whether_a_model_is_tied_is_found(make, tied):
    report = inspect(make(), max_rows=V)
    assert report.tied is tied
    assert (report.vocab_size, report.embedding_dim) == (V, D)
    assert report.table.loc[report.table["part"] == "embedding", "value"].notna().all()


def test_folders_shards_and_files_give_the_models_own_numbers(tmp_path):
    model = llama()
    expected = inspect(model).table
    model.save_pretrained(tmp_path / "one")
    model.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert (tmp_path / "shards/model.safetensors.index.json").is_file()
    torch.save(model.state_dict(), tmp_path / "state.pt")
    for path in ("one", "shards", "one/model.safetensors", "state.pt"):
        heads = {} if (tmp_path / path).is_dir() else {"n_heads": H}
        found = inspect(tmp_path / path, **heads)
        assert found.tied is False
        values = found.table[found.table["head"].isna() & found.table["value"].notna()]["value"]
        own = expected[expected["head"].isna() & expected["value"].notna()]["value"]
        np.testing.assert_array_equal(values, own)
    gpt2().save_pretrained(tmp_path / "tied")
    assert inspect(tmp_path / "tied").tied is True


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: inspect(folder / "pickle.pt"), "weights alone"),
        (lambda folder: inspect(folder / "broken.safetensors"), "not a whole safetensors file"),
        (lambda folder: inspect(Mine(False).to("meta")), "meta device"),
        (lambda folder: inspect("gpt2"), "read from disk alone"),
    ],
)
def test_what_is_no_model_is_refused_in_a_sentence(tmp_path, call, message):
    (tmp_path / "broken.safetensors").write_bytes(b"\0" * 20)
    torch.save(Mine(True), tmp_path / "pickle.pt")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        call(tmp_path)


def test_an_array_that_cannot_be_measured_is_said_and_the_rest_is_measured():
    model = gpt2()
    with torch.no_grad():
        model.transformer.wpe.weight[3, 2] = torch.nan
        model.transformer.h[0].attn.c_attn.weight.zero_()
    report = inspect(model)
    assert "NaN" in notes(report)
    assert "all its numbers are equal" in notes(report)
    assert report.table["value"].notna().sum() > 20


# --- the numbers ------------------------------------------------------------------------------------


def test_a_planted_direction_is_beyond_the_edge_and_noise_is_not():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(300, 40))
    planted = noise + 3 * rng.normal(size=(300, 1)) * rng.normal(size=(1, 40))
    (share, rank, _), values, _ = spectrum_measures(planted, n_draws=4, seed=0)
    assert share.value == 1 / 40
    assert share.null.max() <= 1 / 40
    squares = np.linalg.svd(planted, compute_uv=False) ** 2
    np.testing.assert_allclose(values, np.sqrt(squares), rtol=1e-8)
    assert rank.value == pytest.approx(squares.sum() / squares[0])
    assert rank.value < rank.null.min() / 3
    (share, *_), _, _ = spectrum_measures(noise, n_draws=4, seed=0)
    assert share.value <= 1 / 40


def test_orthonormal_columns_are_at_distance_zero_from_orthogonal():
    columns, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 8)))
    (_, rank, distance), _, _ = spectrum_measures(5 * columns, n_draws=2, seed=0)
    assert distance.value == pytest.approx(0, abs=1e-12)
    assert rank.value == pytest.approx(8)
    assert distance.null.min() > 0.2


def test_equal_tables_have_cosine_one_and_rows_in_disorder_none():
    rows = np.random.default_rng(0).normal(size=(200, 8))
    same, alike = paired_measures(rows, rows, n_draws=3, seed=0)
    assert (same.value, alike.value) == (pytest.approx(1), pytest.approx(1))
    assert abs(same.null.mean()) < 0.1
    assert abs(alike.null).max() < 0.1


def test_smoothness_is_the_mean_squared_step_over_that_of_two_rows():
    rows = np.random.default_rng(0).normal(size=(7, 3))
    apart = np.mean([((a - b) ** 2).sum() for a, b in itertools.permutations(rows, 2)])
    (smooth,) = order_measures(rows, n_draws=1, seed=0)
    assert smooth.value == pytest.approx(1 - np.mean((np.diff(rows, axis=0) ** 2).sum(axis=1)) / apart)


def test_of_a_large_vocabulary_a_sample_is_read(monkeypatch):
    """256,000 rows: as a stored array that refuses to be read whole."""
    from embviz.files.weights import StoredArray, Weights

    def load(rows):
        assert rows is not None
        assert len(rows) <= 4_096
        return np.random.default_rng(int(rows[0])).normal(size=(len(rows), 8))

    big = Weights("big", {"wte.weight": StoredArray((256_000, 8), load)})
    report = inspect(big, [f"word{i}" for i in range(256_000)], max_rows=300)
    assert len(report.rows) == 300
    assert "found for 300 of them, drawn at random" in report.sentence
    assert len(report.neighbors) == 60


# --- the next-token loss ---------------------------------------------------------------------------

LINES = " ".join(f"word{i * i % 23}" for i in range(900))


def word_level(words=tuple(f"word{i}" for i in range(V))):
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="word0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def rows_of(report, part):
    return report.table[report.table["part"] == part]


def test_the_loss_of_a_text_is_that_of_a_loop_by_hand():
    model, ids = gpt2().train(), np.array([i * i % 23 for i in range(900)])
    report = inspect(model, word_level(), LINES, n_batches=4, n_tokens=999)
    assert model.training
    assert all(one.grad is None for one in model.parameters())
    model.eval()
    losses, bits = [], []
    for first in (0, 288, 577, 865):  # 34 tokens and the next: what the model's positions leave room for
        string = torch.from_numpy(ids[first : first + 35])
        logs = model(string[None, :-1]).logits[0].log_softmax(-1)
        losses.append(-sum(logs[place, string[place + 1]] for place in range(34)) / 34)
        bits += [-np.log2((ids == token).mean()) for token in ids[first + 1 : first + 35]]
    loss = rows_of(report, "next token").iloc[0]
    assert loss["value"] == pytest.approx(sum(losses).item() / 4 / np.log(2), rel=1e-5)
    assert loss["null"] == pytest.approx(np.mean(bits))
    assert loss["note"].startswith("no first token was given; perplexity")


@pytest.mark.parametrize("make", [gpt2, llama])
def test_a_folder_has_the_loss_of_its_model(make, tmp_path, capsys):
    model = make()
    model.save_pretrained(tmp_path / "tiny")
    word_level().save(str(tmp_path / "tiny/tokenizer.json"))
    (tmp_path / "mine.txt").write_text(LINES)
    read = inspect(tmp_path / "tiny", word_level(), tmp_path / "mine.txt")
    own, found = (
        rows_of(report, "next token")["value"] for report in (inspect(model, word_level(), LINES), read)
    )
    np.testing.assert_allclose(found, own, rtol=1e-5)
    assert main(["inspect", str(tmp_path / "tiny"), "--table", "--text", str(tmp_path / "mine.txt")]) == 0
    printed = capsys.readouterr()
    assert re.search(r"next-token loss, bits a token +\d", printed.out)
    assert "Loading weights" not in printed.err


def test_the_loss_needs_no_gradients_and_stays_in_the_stored_precision(tmp_path, monkeypatch):
    llama().bfloat16().save_pretrained(tmp_path / "tiny")
    seen = []
    own = causal_models.next_token_loss

    def watched(module, ids):
        seen.append((torch.is_grad_enabled(), next(module.parameters()).dtype))
        return own(module, ids)

    monkeypatch.setattr(causal_models, "next_token_loss", watched)
    report = inspect(tmp_path / "tiny", word_level(), LINES)
    assert set(seen) == {(False, torch.bfloat16)}
    exact = inspect(llama(), word_level(), LINES)
    values = [rows_of(one, "next token")["value"].iloc[0] for one in (report, exact)]
    assert values[0] == pytest.approx(values[1], rel=0.01)


class Seeing(nn.Module):
    """Logits of a place from all of the string."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(V, D)

    def forward(self, ids):
        rows = self.words(ids)
        return (rows + rows.mean(dim=1, keepdim=True)) @ self.words.weight.T


class Tupled(Seeing):
    def forward(self, ids):
        return super().forward(ids), None


def no_tables(folder):
    import transformers as tf

    tf.BertForMaskedLM(tf.BertConfig(**SIZES, num_attention_heads=H)).save_pretrained(folder)
    return folder


def cut_short(folder):
    state = {name: array for name, array in llama().state_dict().items() if "layers.1.mlp" not in name}
    llama().save_pretrained(folder, state_dict=state)
    return folder


def pickled(folder):
    model = llama()
    model.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def rounded(folder):
    llama().save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": {}}))
    return folder


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda _: Seeing(), "depend on later tokens: it is not a causal"),
        (lambda _: Tupled(), "the module gives tuple for ids"),
        (lambda _: nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9)), "tokens that the model doesn't"),
        (lambda _: gpt2().state_dict(), "weights alone have no loss"),
        (no_tables, "BertForMaskedLM is no causal language model"),
        (cut_short, "lacks model.layers.1.mlp"),
        (pickled, "safetensors"),
        (rounded, "its weights are quantized"),
    ],
)
def test_what_has_no_next_token_loss_is_said_in_the_table(make, why, tmp_path):
    report = inspect(make(tmp_path), word_level(), LINES)
    (row,) = rows_of(report, "next token").itertuples()
    assert row.note.startswith("not applicable: ")
    assert why in row.note
    assert np.isnan(row.value)


def test_a_text_that_is_too_short_and_a_model_that_is_too_large_are_said(tmp_path, monkeypatch):
    assert "at least three are needed" in notes(inspect(gpt2(), word_level(), "word1 word2"))
    assert "no tokenizer was given" in notes(inspect(gpt2(), None, LINES))
    with pytest.raises(FileNotFoundError, match=r"no such text: .*absent\.txt"):
        inspect({"wte.weight": np.ones((50, 8))}, None, Path("absent.txt"))
    corpus = corpus_from_tokens(LINES.split())
    llama().save_pretrained(tmp_path / "tiny")
    monkeypatch.setattr(memory, "available_memory", lambda: 1_000)
    monkeypatch.setattr(memory, "NEVER_REFUSED", 0)
    found = notes(inspect(tmp_path / "tiny", word_level(), corpus))
    assert re.search(r"the next-token loss needs about .* and 1\.00 kB are available", found)


# --- the door ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")
def test_the_command_writes_a_page_that_is_offline_small_and_safe(tmp_path, capsys):
    gpt2().save_pretrained(tmp_path / "tiny")
    words = [HOSTILE if i == 3 else f"{HOSTILE}{i}\n" if i % 2 else f"word{i}" for i in range(V)]
    word_level(words).save(str(tmp_path / "tiny/tokenizer.json"))
    text = " ".join(f"word{2 * (i * i % 23)}" for i in range(900))
    (tmp_path / "mine.txt").write_text(text, encoding="utf-8")
    page, mine = tmp_path / "out.html", str(tmp_path / "mine.txt")
    asked = ["inspect", str(tmp_path / "tiny"), "--text", mine, "--html", str(page)]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    assert "Its vocabulary has 60 tokens, each a vector of 16 numbers." in printed
    assert re.search(r"Loss on the text, bits a token +\d\.\d+ +control \d", printed)
    content = page.read_text(encoding="utf-8")
    assert "<script>alert" not in content
    assert "circulant score" in content
    assert content.count("What is this?") == 5
    assert "Most unusual" in content
    assert not re.search(r"<(script|link)[^>]+(src|href)=", content)
    assert len(content) < 3_000_000
    assert main(["inspect", str(tmp_path / "nothing")]) == 1
    assert "there is no file or folder" in capsys.readouterr().err


def save_hostile(path, n_tokens):
    """The page of a model of 12 layers and 144 heads; each token is made to break a page in one way."""
    rng = np.random.default_rng(0)
    model = {name: rng.normal(size=(n_tokens, 24)) for name in ("wte.weight", "lm_head.weight")}
    for layer in range(12):
        model |= {f"h.{layer}.attn.{kind}_proj.weight": rng.normal(size=(24, 24)) for kind in "qkv"}
    kinds = (HOSTILE, "<img src=x onerror=alert(1)>", "a\nb", "\u2028", "\ud800", "W" * 10_000)
    report = inspect(model, [f"{kinds[row % len(kinds)]}{row}" for row in range(n_tokens)], n_heads=12)
    view.inspection_page(report, n_mapped=400).save(path)
    return report


@pytest.mark.filterwarnings("ignore:Tensorflow not installed:ImportWarning")
def test_a_page_of_144_heads_and_hostile_tokens_is_small_and_runs_nothing(tmp_path):
    report = save_hostile(tmp_path / "hostile.html", 50_000)
    assert len(set(report.vocabulary)) == 50_000
    assert max(map(len, report.vocabulary)) < 90
    content = (tmp_path / "hostile.html").read_bytes().decode()
    assert len(content) < 3_000_000
    assert "<script>alert" not in content
    assert "<img src=x" not in content


def marked():
    """A tokenizer that puts a first token before every text, stops after four tokens, and pads."""
    tokenizer = word_level()
    first = tokenizer.id_to_token(0)
    single = TemplateProcessing(single=f"{first} $A", special_tokens=[(first, 0)])
    tokenizer.post_processor = single
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=4)
    return tokenizer


def test_each_string_begins_with_the_first_token_where_the_tokenizer_has_one():
    model = gpt2()
    assert marked().encode("a").ids[0] == 0
    table = inspect(model, marked(), LINES, n_batches=3, n_tokens=8).table
    (row,) = [row for row in table.itertuples() if row.quantity == "next-token loss, bits a token"]
    assert "each string begins with" in row.note
    corpus = make_corpus(LINES, tokenizer=word_level())
    ids = [word_level().token_to_id(corpus.vocabulary[i]) for i in corpus.ids]
    places = np.unique(np.linspace(0, len(ids) - 9, 3).round().astype(int))
    strings = torch.tensor([[0, *ids[place : place + 8]] for place in places])
    with torch.no_grad():
        logits = model.eval()(strings[:, :-1]).logits
    slow = torch.nn.functional.cross_entropy(logits.flatten(0, 1), strings[:, 1:].flatten()) / np.log(2)
    assert row.value == pytest.approx(float(slow), rel=1e-5)
    n_bytes = sum(len(word_level().decode(string[1:].tolist())) for string in strings)
    (each,) = [one for one in table.itertuples() if one.quantity == "next-token loss, bits a byte"]
    assert each.value == pytest.approx(float(slow) * 8 * len(places) / n_bytes, rel=1e-5)


@pytest.mark.slow
def test_an_inspection_shows_itself_in_a_notebook():
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import numpy as np\nfrom embviz.inspection import inspect\n"
        "inspect({'wte.weight': np.random.default_rng(0).normal(size=(60, 8))}, [f'w{i}' for i in range(60)])"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, kernel_name="python3", timeout=200).execute()
    shown = [
        output["data"] for output in notebook.cells[0].outputs if output["output_type"] == "display_data"
    ]
    text = " ".join(data.get("text/html", "") for data in shown)
    assert "Its vocabulary has 60 tokens" in text
    assert any("application/vnd.jupyter.widget-view+json" in data for data in shown)


def test_singular_values_that_are_nearly_zero_have_no_place_on_the_logarithmic_axis():
    spectra = {"embedding": (np.array([2.0, 1.0, 3e-6, 0.0]), np.ones(4))}
    (columns,) = plot_spectrum_by_rank(SimpleNamespace(name="m", spectra=spectra)).to_dict()["data"]["values"]
    assert columns["singular_value"] == [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]
