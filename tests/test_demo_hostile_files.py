"""The long run over hostile files: few of them, failures told, and one of them read again."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

pytest.importorskip("rich")


@pytest.fixture
def demo(load_benchmark):
    return load_benchmark("hostile_files")


def run(demo, monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["hostile_files.py", "--no-progress", *arguments])
    return demo.main()


def test_few_files_are_read_or_refused(demo, monkeypatch, capsys):
    assert run(demo, monkeypatch, "--inputs", "70", "--seed", "1") == 0
    printed = capsys.readouterr().out
    for reader in demo.READERS:
        assert reader.name in printed
    assert "seed 1" in printed


def warn(path):
    warnings.warn("odd bytes", stacklevel=2)


def leave_open(path):
    path.open("rb")


def fail(path):
    raise KeyError(path)


def run_out_of_memory(path):
    try:
        raise MemoryError("too much")
    except MemoryError as error:
        raise ValueError(f"{path} cannot be read") from error


def take_much(path):
    return bytearray(10_000_000)


def refuse_without_a_name(path):
    raise ValueError("cannot be read")


@pytest.mark.parametrize(
    ("read", "failure"),
    [
        (warn, "UserWarning: odd bytes"),
        (leave_open, "ResourceWarning"),
        (fail, "KeyError"),
        (run_out_of_memory, "refused after MemoryError: too much"),
        (take_much, "allocated 10,"),
        (refuse_without_a_name, "a refusal that does not name the file"),
    ],
)
def test_whatever_else_a_reader_does_is_a_failure(demo, monkeypatch, capsys, read, failure):
    monkeypatch.setattr(demo, "READERS", (replace(demo.READERS[0], read=read),))
    assert run(demo, monkeypatch, "--inputs", "2") == 1
    assert f"IDX, 0: {failure}" in " ".join(capsys.readouterr().out.split())


def test_a_file_that_takes_long_is_a_failure(demo):
    tally = demo.Tally()
    for number, seconds in enumerate([0.5, 1.5]):
        tally.add(number, demo.Outcome("refused", seconds, 0))
    assert tally.failures == ["1: refused after 1.5 s"]
    assert (tally.inputs, tally.refused, tally.longest) == (2, 2, 1.5)


def test_one_file_is_read_again(demo, monkeypatch, capsys):
    monkeypatch.setattr(demo, "READERS", (replace(demo.READERS[0], read=fail),))
    with pytest.raises(KeyError):
        run(demo, monkeypatch, "--only", "3")
    assert "IDX: " in capsys.readouterr().out


def test_the_quick_form_reads_a_thousand(demo):
    assert demo.parse_arguments(["--quick"]).inputs == 1_000
    assert demo.parse_arguments([]).inputs == 100_000


@pytest.mark.parametrize("arguments", [["--inputs", "0"], ["--only", "-1"], ["--seed", "x"]])
def test_wrong_arguments_are_refused_at_once(demo, capsys, arguments):
    with pytest.raises(SystemExit) as raised:
        demo.parse_arguments(arguments)
    assert raised.value.code == 2
    assert arguments[0] in capsys.readouterr().err
