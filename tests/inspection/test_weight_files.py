"""Weights on disk: what is read, what is named, what is refused, in files as others leave them."""

import json
import struct

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from embviz.inspection import inspect, read_weights
from embviz.trajectories import read_checkpoints
from embviz.words import WordVectors

TABLE = torch.arange(12.0).reshape(4, 3)
LARGER = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))


def folder_of(tmp_path, files, config=None):
    for name, tensors in files.items():
        if name.endswith(".safetensors"):
            save_file(tensors, tmp_path / name)
        else:
            torch.save(tensors, tmp_path / name)
    if config is not None:
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


def table_of(source, name="wte.weight"):
    return read_weights(source).arrays[name].read()


def test_another_model_beside_the_usual_file_is_not_poured_into_it(tmp_path):
    folder_of(
        tmp_path, {"model.safetensors": {"wte.weight": TABLE}, "model_1.safetensors": {"wte.weight": -TABLE}}
    )
    np.testing.assert_array_equal(table_of(tmp_path), TABLE)


def test_several_files_of_no_usual_name_are_refused_by_name(tmp_path):
    folder_of(tmp_path, {f"{name}.safetensors": {"wte.weight": TABLE} for name in "ab"})
    with pytest.raises(
        ValueError, match=r"several files of weights \(a\.safetensors, b\.safetensors\): name"
    ):
        read_weights(tmp_path)


@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_shards_are_one_model_with_or_without_an_index(tmp_path, ending):
    names = [
        f"{'model' if ending == 'safetensors' else 'pytorch_model'}-0000{i}-of-00002.{ending}" for i in (1, 2)
    ]
    folder_of(tmp_path, {names[0]: {"wte.weight": TABLE}, names[1]: {"h.0.w.weight": TABLE}})
    assert set(read_weights(tmp_path).arrays) == {"wte.weight", "h.0.w.weight"}
    stem = names[0].partition("-")[0]
    index = {"weight_map": {"wte.weight": names[0], "h.0.w.weight": names[1]}}
    (tmp_path / f"{stem}.{ending}.index.json").write_text(json.dumps(index), encoding="utf-8")
    np.testing.assert_array_equal(table_of(tmp_path), TABLE)


def test_an_array_that_two_shards_hold_is_refused(tmp_path):
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    folder_of(tmp_path, {name: {"wte.weight": TABLE} for name in names})
    with pytest.raises(ValueError, match=r"wte\.weight is twice in"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("{}", "has no weight_map of names to files"),
        ("[]", "holds a list, where an object is needed"),
        (
            '{"weight_map": {"a": "../model.safetensors"}}',
            r"names '\.\./model\.safetensors', which is not in its",
        ),
        ("[" * 100_000, r"is not valid JSON \(RecursionError\)"),
    ],
)
def test_a_damaged_index_is_named(tmp_path, index, message):
    (tmp_path / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"index\.json {message}"):
        read_weights(tmp_path)


@pytest.mark.parametrize("nest", ["state_dict", "model_state_dict", "model"])
def test_weights_are_found_where_training_loops_put_them(tmp_path, nest):
    torch.save({nest: {"wte.weight": TABLE}, "epoch": 3}, tmp_path / "tutorial.pt")
    np.testing.assert_array_equal(table_of(tmp_path / "tutorial.pt"), TABLE)


def test_a_tied_model_stored_by_its_output_alone_has_an_embedding(tmp_path):
    folder_of(
        tmp_path, {"model.safetensors": {"lm_head.weight": LARGER}}, config={"tie_word_embeddings": True}
    )
    assert inspect(tmp_path).vocab_size == 40


@pytest.mark.parametrize("dtype", [torch.int8, torch.complex64])
def test_what_is_not_read_is_named_with_its_type(tmp_path, dtype):
    torch.save({"wte.weight": TABLE.to(dtype), "ln.weight": torch.ones(3)}, tmp_path / "model.pt")
    name = str(dtype).removeprefix("torch.")
    assert f"not read: wte.weight ({name})" in inspect(tmp_path / "model.pt").sentence


@pytest.mark.parametrize("scale", [None, torch.tensor(2.0), torch.arange(1.0, 5.0)])
def test_eight_bit_floats_are_multiplied_by_their_scales(tmp_path, scale):
    tensors = {"wte.weight": TABLE.to(torch.float8_e4m3fn)}
    if scale is not None:
        tensors["wte.weight_scale"] = scale
    save_file(tensors, tmp_path / "m.safetensors")
    right = TABLE.to(torch.float8_e4m3fn).float() * (1 if scale is None else scale.reshape(-1, 1))
    found = read_weights(tmp_path / "m.safetensors").arrays["wte.weight"]
    np.testing.assert_array_equal(found.read(), right)
    np.testing.assert_array_equal(found.read(np.array([1, 3])), right[[1, 3]])


def test_a_scale_for_each_block_is_not_guessed(tmp_path):
    tensors = {"wte.weight": TABLE.to(torch.float8_e4m3fn), "wte.weight_scale_inv": torch.ones(2, 3)}
    save_file(tensors, tmp_path / "m.safetensors")
    assert "F8_E4M3 with a scale for each block" in inspect(tmp_path / "m.safetensors").sentence


def test_matrices_of_numpy_are_read(tmp_path):
    np.save(tmp_path / "e.npy", LARGER.numpy())
    assert inspect(tmp_path / "e.npy").embedding_dim == 8
    np.savez(tmp_path / "e.npz", **{"wte.weight": TABLE.numpy()})
    np.testing.assert_array_equal(table_of(tmp_path / "e.npz"), TABLE)
    np.save(tmp_path / "i.npy", np.arange(4))
    with pytest.raises(ValueError, match=r"holds int64 of shape \(4,\): a matrix of floats is needed"):
        read_weights(tmp_path / "i.npy")


def llama2c(n_layers):
    return struct.pack("<7i", 8, 16, n_layers, 2, 2, 10, 5) + bytes(1000)


REFUSED = {
    "pointer.safetensors": (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
    "model.onnx": (b"\x08\x07\x12", "is an ONNX graph, which is not read"),
    "train.log": (b"=" * 60 + b"\nepoch 1 loss 2.3\n", "a PyTorch file of weights alone"),
    "layers.bin": (llama2c(2**31 - 1), "a PyTorch file of weights alone"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_hold_no_weights_are_refused_at_once_and_without_advice_to_unpickle(tmp_path, name):
    content, message = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as refused:
        read_weights(tmp_path / name)
    assert "weights_only" not in str(refused.value)


def test_a_folder_with_an_adapter_alone_says_to_merge_it(tmp_path):
    save_file({"lora_A.weight": TABLE}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ValueError, match=r"holds an adapter \(LoRA\).*merge it"):
        read_weights(tmp_path)


def test_slices_of_matrices_are_not_taken_for_a_model(tmp_path):
    folder_of(tmp_path, {f"consolidated.0{i}.pth": {"tok_embeddings.weight": TABLE} for i in range(2)})
    with pytest.raises(ValueError, match=r"slices of each matrix \(consolidated"):
        read_weights(tmp_path)


def test_an_empty_folder_says_what_was_looked_for(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no weights: no \*\.safetensors.*it has nothing"):
        read_weights(tmp_path)


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_a_numpy_file_that_is_cut_or_holds_objects_is_named(tmp_path, save):
    path = tmp_path / ("a.npz" if save is np.savez else "a.npy")
    for table, end in ((np.eye(9), -20), (np.array([{}]), None)):
        save(path, table)
        path.write_bytes(path.read_bytes()[:end])
        with pytest.raises(ValueError, match=rf"{path.name} is cut short, or holds no plain numbers"):
            read_weights(path)


def test_sparse_tensors_are_named_and_names_that_are_no_strings_are_read(tmp_path):
    torch.save({("a", 1): torch.eye(3), "b": torch.eye(3).to_sparse()}, tmp_path / "a.pt")
    found = read_weights(tmp_path / "a.pt")
    assert list(found.arrays) == ["('a', 1)"]
    assert found.left_out == {"b": "sparse_coo"}


@pytest.mark.parametrize("read", [read_weights, WordVectors.load, read_checkpoints])
def test_an_empty_name_is_not_the_current_folder(read):
    with pytest.raises(ValueError, match="the name of a file or folder is empty"):
        read("")
