import io
import json
import subprocess
import sys

import pytest

from embviz import cli, storage
from tests.made_registry import TEXT, stored, toml_entry, whole, write


@pytest.fixture
def made(monkeypatch, tmp_path):
    """A registry of two made data sets, one of them at hand."""
    monkeypatch.setenv("EMBVIZ_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("EMBVIZ_DATA_DIR", raising=False)
    monkeypatch.setattr(storage, "registry_file", lambda: tmp_path / "registry.toml")
    rose = toml_entry("rose", whole(stored("rose.txt", TEXT), text=TEXT))
    lost = toml_entry("lost", whole(stored("lost.txt", TEXT), text=TEXT))
    (tmp_path / "registry.toml").write_text(rose + lost)
    return write(tmp_path / "cache" / "data", "rose.txt", TEXT)


def test_data_list_prints_a_table_and_json(made, capsys):
    assert cli.main(["data", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "part", "kind", "size", "state", "licence"]
    assert [line.split()[0] for line in lines[1:]] == ["embedded", "rose", "lost"]
    assert cli.main(["data", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[1]["name"] == "rose"
    assert rows[1]["bytes"] == len(TEXT)
    assert rows[1]["state"] == "at hand"
    assert rows[1]["path"] == str(made)


def test_data_verify_fails_for_a_wrong_file_and_for_a_named_one_that_is_absent(made, capsys):
    assert cli.main(["data", "verify"]) == 0
    assert cli.main(["data", "verify", "lost"]) == 1
    assert "no lost.txt" in capsys.readouterr().err
    made.write_bytes(TEXT.upper())
    assert cli.main(["data", "verify", "--json"]) == 1
    states = {row["name"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states == {"rose": "wrong", "lost": "absent"}


def test_data_fetch_of_what_has_no_address_says_what_to_do(made, capsys):
    assert cli.main(["data", "fetch", "rose"]) == 0
    assert cli.main(["data", "fetch", "embedded"]) == 0
    assert "needs no file" in capsys.readouterr().out
    assert cli.main(["data", "fetch", "lost", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert row["state"] == "failed"
    assert "put the file into" in row["problem"]


def test_an_error_of_ours_is_one_line_and_exit_code_1(made, capsys):
    assert cli.main(["data", "verify", "tulip"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "embviz: no data set is called 'tulip'; known: embedded, rose, lost\n"
    with pytest.raises(ValueError, match="tulip"):
        cli.main(["--debug", "data", "verify", "tulip"])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("map v --html o --first 0", "'0' is no whole number from 1 on"),
        ("map v --html o --matching [", "'[' is no regular expression"),
        ("inspect m --map -3", "'-3' is neither a number from 0 on nor `all`"),
        ("inspect no_model --text no_text", "no_text"),
        ("run reflections.lemma9", "embviz run is now `python -m book run`"),
        ("ledger", "embviz ledger is now `python -m book ledger`"),
        ("data list --port=9999", "unrecognized arguments: --port=9999"),
        ("data pack geometry", "data pack is gone: copy the downloads"),
        ("inspect model --gradients", "--gradients is gone: embviz.training.strike"),
    ],
)
def test_a_command_that_cannot_be_meant_is_told_first(command, message, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(cli.main(command.split()))
    assert ended.value.code
    assert message in capsys.readouterr().err


def test_help_and_version_import_nothing_heavy():
    code = (
        "import sys; from embviz import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'pandas', 'torch', 'scipy', 'pyarrow', 'altair'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "data" in result.stdout
    assert result.stdout.splitlines()[-1] == "[]"


def test_a_reader_who_has_seen_enough_gets_no_error():
    command = f"{sys.executable} -m embviz.cli data list | true"  # gone before the first word
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("module", "end"),
    [("torch.nn", "'torch.nn': pip install \"embviz[torch]\"\n"), ("nothing", "'nothing'\n")],
)
def test_a_library_that_an_experiment_misses_is_named_with_its_extra(made, monkeypatch, capsys, module, end):
    def miss():
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(storage, "registry_file", miss)
    assert cli.main(["data", "list"]) == 1
    assert capsys.readouterr().err == f"embviz: No module named {end}"


@pytest.mark.parametrize(
    ("encoding", "found"), [("ascii", "ö −".encode()), ("utf-8", "ö −".encode()), ("latin-1", b"\xf6 ?")]
)
def test_letters_that_a_locale_lacks_do_not_end_a_command(monkeypatch, encoding, found):
    sink = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(sink, encoding=encoding))
    monkeypatch.setattr(cli, "data_list", lambda arguments: print("ö −", end="") or 0)
    assert cli.main(["data", "list"]) == 0
    assert sink.getvalue() == found
