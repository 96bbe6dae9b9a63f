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
    ("command", "code", "message"),
    [
        ("map v --html o --first 0", 2, "'--first': 0 is not in the range x>=1"),
        ("map v --html o --first 9 --matching a", 2, "give one of --first, --matching and --text"),
        ("map v --html o --matching [", 2, "'[' is no regular expression"),
        ("inspect m --map -3", 2, "'-3' is neither a number from 0 on nor `all`"),
        ("inspect no_model --text no_text", 1, "no_text"),
        ("run reflections.lemma9", 2, "embviz run is now `python -m book run`"),
        ("ledger", 2, "embviz ledger is now `python -m book ledger`"),
        ("data list --port=9999", 2, "No such option '--port'"),
        ("data pack geometry", 2, "data pack is gone: copy the downloads"),
        ("inspect model --gradients", 2, "--gradients is gone: embviz.training.strike"),
        ("", 2, "Missing command"),
    ],
)
def test_a_command_that_cannot_be_meant_is_told_first_in_one_line(
    command, code, message, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    assert cli.main(command.split()) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("embviz: ")
    assert message in line


def test_a_command_that_is_interrupted_ends_without_a_traceback(monkeypatch, capsys):
    def interrupt(as_json):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.data_list, "callback", interrupt)
    assert cli.main(["data", "list"]) == 130
    assert capsys.readouterr().err == "embviz: stopped\n"


def test_help_and_version_import_nothing_heavy():
    code = (
        "import sys; from embviz import cli\n"
        "assert cli.main(['--version']) == cli.main(['--help']) == 0\n"
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
    monkeypatch.setattr(cli.data_list, "callback", lambda as_json: print("ö −", end=""))
    assert cli.main(["data", "list"]) == 0
    assert sink.getvalue() == found
