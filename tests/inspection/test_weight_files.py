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
        if isinstance(tensors, bytes):
            (tmp_path / name).write_bytes(tensors)
        elif name.endswith(".safetensors"):
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


@pytest.mark.parametrize("nest", ["state_dict", "model_state_dict", "model"])
def test_weights_are_found_where_training_loops_put_them(tmp_path, nest):
    torch.save({nest: {"wte.weight": TABLE}, "epoch": 3}, tmp_path / "tutorial.pt")
    np.testing.assert_array_equal(table_of(tmp_path / "tutorial.pt"), TABLE)


def test_a_tied_model_stored_by_its_output_alone_has_an_embedding(tmp_path):
    folder_of(
        tmp_path, {"model.safetensors": {"lm_head.weight": LARGER}}, config={"tie_word_embeddings": True}
    )
    assert inspect(tmp_path).vocab_size == 40


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


def test_matrices_of_numpy_are_read(tmp_path):
    np.save(tmp_path / "e.npy", LARGER.numpy())
    assert inspect(tmp_path / "e.npy").embedding_dim == 8
    np.savez(tmp_path / "e.npz", **{"wte.weight": TABLE.numpy()})
    np.testing.assert_array_equal(table_of(tmp_path / "e.npz"), TABLE)
    np.save(tmp_path / "i.npy", np.arange(4))
    with pytest.raises(ValueError, match=r"holds int64 of shape \(4,\): a matrix of floats is needed"):
        read_weights(tmp_path / "i.npy")


LLAMA2C = struct.pack("<7i", 8, 16, 2, 2, 2, 10, 5) + bytes(1000)
SHARDS = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
INDEX = "model.safetensors.index.json"
TOO_DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pointer.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
        ("model.onnx", b"\x08\x07\x12", "is an ONNX graph, which is not read"),
        ("train.log", b"=" * 60 + b"\nepoch 1 loss 2.3\n", "no PyTorch file of weights alone"),
        ("stories.bin", LLAMA2C, r"no PyTorch file of weights alone.*: give llama2\.c's ckpt\.pt"),
    ],
)
def test_files_that_hold_no_weights_are_refused_at_once_and_without_advice_to_unpickle(
    tmp_path, name, content, message
):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message) as refused:
        read_weights(tmp_path / name)
    assert "weights_only" not in str(refused.value)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, r"has no weights: no \*\.safetensors.*it has nothing"),
        (
            {f"{name}.safetensors": {"w": TABLE} for name in "ab"},
            r"several files of weights \(a\.safeten.*: name",
        ),
        ({name: {"wte.weight": TABLE} for name in SHARDS}, r"wte\.weight is twice in"),
        ({"adapter_model.safetensors": {"lora_A.weight": TABLE}}, r"holds an adapter \(LoRA\).*merge it"),
        (
            {f"consolidated.0{i}.pth": {"w": TABLE} for i in range(2)},
            r"slices of each matrix \(consolidated",
        ),
        ({INDEX: b"{}"}, r"index\.json has no weight_map of names to files"),
        ({INDEX: b"[]"}, r"index\.json holds a list, where an object is needed"),
        ({INDEX: b'{"weight_map": {"a": "../model.safetensors"}}'}, r"names '\.\./model\.safe.* not in its"),
        ({INDEX: b'{"weight_map": {"a": "model-1.safetensors"}}'}, "which its index names"),
        ({INDEX: TOO_DEEP}, r"index\.json is not valid JSON \(RecursionError\)"),
    ],
)
def test_a_folder_without_one_whole_model_is_refused(tmp_path, files, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        read_weights(folder_of(tmp_path, files))


def test_what_is_not_read_is_named_with_its_type(tmp_path):
    tensors = {"int": TABLE.to(torch.int8), "complex": TABLE.to(torch.complex64), ("a", 1): TABLE}
    torch.save(tensors | {"sparse": torch.eye(3).to_sparse()}, tmp_path / "a.pt")
    found = read_weights(tmp_path / "a.pt")
    assert list(found.arrays) == ["('a', 1)"]  # a name that is no string is read
    assert found.left_out == {"int": "int8", "complex": "complex64", "sparse": "sparse_coo"}
    blocks = {"wte.weight": TABLE.to(torch.float8_e4m3fn), "wte.weight_scale_inv": torch.ones(2, 3)}
    save_file(blocks, tmp_path / "m.safetensors")
    said = inspect(tmp_path / "m.safetensors").sentence
    assert "not read: wte.weight (F8_E4M3 with a scale for each block" in said


@pytest.mark.parametrize("save", [np.save, np.savez])
def test_a_numpy_file_that_is_cut_or_holds_objects_is_named(tmp_path, save):
    path = tmp_path / ("a.npz" if save is np.savez else "a.npy")
    for table, end in ((np.eye(9), -20), (np.array([{}]), None)):
        save(path, table)
        path.write_bytes(path.read_bytes()[:end])
        with pytest.raises(ValueError, match=rf"{path.name} is cut short, or holds no plain numbers"):
            read_weights(path)


@pytest.mark.parametrize("read", [read_weights, WordVectors.load, read_checkpoints])
def test_an_empty_name_is_not_the_current_folder(read):
    with pytest.raises(ValueError, match="the name of a file or folder is empty"):
        read("")
