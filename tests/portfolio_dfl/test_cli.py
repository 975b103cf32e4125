"""The command line as a user meets it: quick help, one line an error, exit code 2."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_study import brief, empty_store, start

from portfolio_dfl.cli import main
from portfolio_dfl.config.study import load_config
from portfolio_dfl.errors import ConfigError

VERBS = [
    [],
    *([verb] for verb in ("run", "train", "backtest", "compare", "predict", "report", "resume", "sweep", "ui", "task")),
]
VERBS += [["doctor"], ["config"], ["data"], *(["data", verb] for verb in ("fetch", "check", "show", "list"))]
HEAVY = ("torch", "numpy", "pandas", "scipy", "numba", "sklearn", "lightning", "mlflow", "plotly", "skfolio", "arch")
HEAVY += ("yfinance", "pyarrow", "optuna", "joblib", "dask", "ray", "dxpp_core")


def portfolio_dfl(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "portfolio_dfl.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, timeout=120)


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_appears_within_a_second(verb: list[str]) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = portfolio_dfl(*verb, "--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert shown.returncode == 0
    assert "Usage" in shown.stdout
    # Processor time: how long the clock runs depends on what else the machine does.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_loads_nothing_heavy(verb: list[str]) -> None:
    code = (
        "import sys\nfrom portfolio_dfl.cli import main\nsys.argv = ['portfolio-dfl', *sys.argv[1:]]\n"
        f"try: main()\nfinally: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *verb, "--help"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stderr.strip() == "[]"


def test_config_prints_yaml_that_run_would_read() -> None:
    shown = portfolio_dfl("config", "--set", "training.epochs=3")
    assert yaml.safe_load(shown.stdout)["training"]["epochs"] == 3


AVERAGES = ["--set", "backtest.strategies=[historical_mean_variance]"]
RULES = ["--set", "backtest.strategies=[minimum_variance, perfect_foresight]"]
FIXED = ["--set", "backtest.start=2018-01-02"]
SEARCH = ["--set", "sweep.space={training.epochs: [1]}", "--set", "backtest.start=2018-01-02"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "absent.yaml"], "no configuration file absent.yaml"),
        (["run", "--set", "training.epoch=1"], "the nearest is training.epochs"),
        (["run", "--set", "backtest.start=2020-02-31"], "backtest.start"),
        (["run", "--set", "data.tickers=[MTUM]"], "at least two tickers"),
        (["run", "--set", "data.source=absent.csv"], "absent.csv"),
        (["run", "--set", "allocation.horizon=1000000000"], "allocation.horizon=1000000000: lower it, or use more"),
        (["run", "--set", "forecasting.lookback=1000000000"], "forecasting.lookback=1000000000: lower it"),
        (["run", "--set", "covariance.window=100000"], "most of them for covariance.window=100000: lower it"),
        (["run", "--set", "training.realised_window=100000"], "training.realised_window=100000: lower it"),
        (["run", *RULES, "--set", "covariance.window=100000"], "most of them for covariance.window=100000: lower it"),
        (["run", *AVERAGES, "--set", "forecasting.lookback=9999"], "most of them for forecasting.lookback=9999"),
        (
            ["run", *RULES, "--set", "training.realised_window=9999"],
            "training.realised_window of 9999 rows is longer than the data, 2263 returns",
        ),
        (
            ["run", *RULES, "--set", "allocation.horizon=1000000000"],
            "1000000000 rows is longer than the data, 2263 returns",
        ),
        (["run", "--set", "training.validation_samples=120"], "leave none of 120 samples to train on"),
        (["sweep", *SEARCH, "--set", "forecasting.predictor=foo"], "unknown predictor 'foo'"),
        (["train", "--set", "training.loss=foo"], "unknown loss 'foo'"),
        (["compare", "--set", "forecasting.predictor=foo"], "unknown predictor 'foo'"),
        (["run", "--set", "allocation.max_weight=0.05"], "allocation.max_weight=0.05 leaves 5 assets with 0.25 of the"),
        (["run", *RULES, "--set", "allocation.max_weight=0.05"], "raise it to 0.2 or more"),
        (["sweep", *SEARCH, "--set", "allocation.max_weight=0.05"], "allocation.max_weight=0.05 leaves 5 assets"),
        (["sweep", *SEARCH, "--set", "sweep.space={allocation.max_weight: [0.5, 0.05]}"], "allocation.max_weight=0.05"),
        (["sweep"], "sweep.space is empty"),
        (["resume", "absent"], "no run absent"),
        (["backtest", "absent"], "no run absent"),
        (["report", "absent"], "no run absent"),
        (["predict", "absent"], "no run absent"),
        (["predict", "models:/decisions/1"], "no MLflow store in runs, so no models:/decisions/1"),
        (["ui"], "no MLflow store"),
        (["data", "check", "absent.csv"], "absent.csv"),
        (["data", "show", "absent"], "absent"),
        (["data", "list", "--folder", "absent"], "absent is not a folder"),
        (["data", "fetch", "x", "--source", "absent.csv"], "absent.csv"),
        (["frob"], "no such command 'frob'; see `portfolio-dfl --help`"),
        (["run", "--frob"], "see `portfolio-dfl run --help`"),
        (["run", "--set"], "requires an argument"),
        (["run", "a", "b"], "unexpected extra argument"),
        (["run", "--set", "foo"], "write dotted.key=value"),
        (["run", "--set", "name=.."], "name"),
        (["run", "--set", "name=-x"], "name"),
        (["run", "--set", "training=3"], "training: a section with keys below it is needed, not 3"),
        (["run", "--set", "training.epochs=x"], "training.epochs"),
        (["run", "--set", "data.tickers=[MTUM, XYZ]"], "no ticker 'XYZ'"),
        (["run", "--set", "data.tickers=[]"], "at least two tickers"),
        (["run", "--set", "data.start=2020-01-01", "--set", "data.end=2019-01-01"], "must lie before end"),
        (["run", "--set", "data.start=2030-01-01"], "no prices between"),
        (["run", "--set", "data.calendar=FOO"], "no exchange calendar is named 'FOO'"),
        (["run", "--set", "data.policies.foo=bar"], "no policy is named 'foo'"),
        (["run", "--set", "backtest.start=2030-01-01"], "no decision date"),
        (["run", "--set", "forecasting.options={foo: 1}"], "does not take options"),
        (["run", "--set", "forecasting.predictor=nothing:Here"], "cannot be imported"),
        (["run", "--set", "execution.backend=ray"], "needs the address"),
        (["run", "--set", "allocation.solver=nosuch"], "no solver is called 'nosuch'"),
        (["run", "--set", "tracking.folder=/sys/x"], "/sys/x"),
        (["run", "--set", "tracking.uri=nonsense"], "no MLflow store"),
        (["run", "--set", "tracking.uri=http://127.0.0.1:1"], "no MLflow server answers at http://127.0.0.1:1"),
        (
            ["run", "--set", "tracking.uri=databricks"],
            "MLflow finds no credentials for databricks; run `databricks auth",
        ),
        (["run", "--set", "tracking.uri=databricks://me"], "MLflow finds no credentials for databricks://me; run"),
        (["train", "--set", "tracking.uri=http://127.0.0.1:1"], "no MLflow server answers"),
        (["sweep", *SEARCH, "--set", "tracking.uri=http://127.0.0.1:1"], "no MLflow server answers"),
        (["run", "--set", "tracking.register_as=a/b"], "must not hold / or :"),
        (["train", "--set", "training.samples=99999"], "training.samples=99999: lower it, or use more data"),
        (["compare", "--set", "evaluation.bootstrap=5"], "too few for an interval"),
        (["sweep", "--set", "sweep.space={foo: [1]}"], "unknown key foo"),
        (
            ["sweep", *FIXED, "--set", "sweep.space={data.start: [2014-01-02]}"],
            "data.start cannot be searched, all",
        ),
        (
            ["sweep", *FIXED, "--set", "sweep.space={data: [{}]}"],
            "data cannot be searched, all trials are judged",
        ),
        (["sweep", *FIXED, "--set", "sweep.space={backtest.start: [2014-01-02]}"], "it says how trials are judged"),
        (["sweep", *FIXED, "--set", "sweep.space={evaluation.risk_free_rate: [0.1]}"], "it says how trials are judged"),
        (["sweep", *FIXED, "--set", "sweep.space={execution.workers: [1, 2]}"], "it changes no number"),
        (["sweep", *FIXED, "--set", "sweep.space={tracking.folder: [a, b]}"], "it changes no number"),
        (["sweep", *FIXED, "--set", "sweep.space={name: [a, b]}"], "it changes no number"),
        (
            ["sweep", *FIXED, "--set", "sweep.space={sweep.trials: [1, 2]}"],
            "allocation, forecasting, training",
        ),
        (["sweep", "--set", "sweep.space={training.epochs: []}"], "training.epochs"),
        (["sweep", "--set", "sweep.space={training.epochs: {low: 1}}"], "training.epochs"),
        (["sweep", "--set", "sweep.space={training.epochs: {low: 5, high: 1}}"], "a high above it"),
        (["sweep", "--set", "sweep.space={training.epochs: {low: 0, high: 5, log: true}}"], "0 has no logarithm"),
        (
            ["sweep", "--set", "sweep.space={training.ridge: {low: -1.5, high: 5, log: true}}"],
            "a low above 0, not -1.5",
        ),
        (["sweep", "--set", "sweep.space={training.epochs: {low: false, high: 5}}"], "numbers both"),
        (["sweep", "--set", "sweep.space={training.epochs: {low: 1, high: 5, log: 3}}"], "log: true or log: false"),
        (["sweep", "--set", "sweep.space={training.ridge: {low: -1.7e308, high: 1.7e308}}"], "2^53"),
        (
            [
                "sweep",
                *SEARCH,
                "--set",
                "sweep.space={training.samples: [40, 120], training.validation_samples: [0, 50]}",
            ],
            "leave none of 40 samples",
        ),
        (["run", "--set", f"data.source={'x' * 300}"], "File name too long"),
        (["run", "x" * 300], "File name too long"),
        (["resume", "x" * 300], "File name too long"),
        (["run", "--set", f"name={'x' * 300}"], "at most 200 bytes"),
        (["run", "--set", "tracking.folder=what?"], "must not hold ?"),
        (["report"], "missing argument"),
        (["resume", "."], "no run ."),
        (["predict"], "missing argument"),
        (["predict", "x", "--today", "2018-13-01"], "--today"),
        (["predict", "x", "--max-age", "-1"], "--max-age"),
        (["ui", "--port", "0"], "--port"),
        (["ui", "--port", "abc"], "--port"),
        (["task", "foo"], "no task is called 'foo'"),
        (["task", "runtime", "--set", "foo=1"], "no setting 'foo'"),
        (["task", "gradient-accuracy", "--set", "seed=x"], "seed"),
        (["config", "absent.yaml"], "no configuration file absent.yaml"),
        (["config", "--set", "foo=1"], "unknown key foo"),
        (["doctor", "extra"], "unexpected extra argument"),
        (["data", "frob"], "no such command 'frob'; see `portfolio-dfl data --help`"),
        (["data", "check", "embedded", "--policy", "foo"], "write dotted.key=value"),
        (["data", "check", "embedded", "--start", "2020-99-99"], "2020-99-99"),
        (["data", "check", "embedded", "--start", "2021-01-01", "--end", "2020-01-01"], "lies after end"),
        (["data", "check", "embedded", "--tickers", "X"], "no ticker 'X'"),
        (["data", "fetch", "../x", "--source", "embedded"], "snapshot name"),
        (["data", "fetch", "x", "--source", "embedded", "--folder", "/sys/x"], "/sys/x"),
        (["data", "show", "embedded", "--folder", "/sys/x"], "/sys/x"),
    ],
)
def test_bad_input_gives_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["portfolio-dfl", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    errors = capsys.readouterr().err.splitlines()
    assert left.value.code == 2
    assert message in errors[-1]
    assert len(errors) == 1
    assert list(tmp_path.iterdir()) == []


PRICES = "Date,A,B\n2020-01-02,1,2\n2020-01-03,1.1,2.1\n"
FILES = {
    "a list": b"- a\n- b\n",
    "bad syntax": b"a: [1\nb: 2",
    "a key twice": b"name: a\nname: b\n",
    "bytes": bytes(range(128, 256)),
    "nothing": b"",
    "text": b"hello",
    "a section that is none": b"data: 5\n",
    "keys that are numbers": b"1: 2\n",
    "keys that are lists": b"? [a]\n: 3\n",
    "a tab": b"training:\n\tepochs: 3\n",
    "an object": b"a: !!python/object:os.system x\n",
    "prices": PRICES.encode(),
}


def leaves_with_one_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.setattr(sys, "argv", ["portfolio-dfl", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert left.value.code == 2
    assert error.startswith("error: ")
    return error


@pytest.mark.parametrize("verb", ["run", "train", "compare", "sweep", "config"])
@pytest.mark.parametrize("content", FILES)
def test_a_file_that_is_no_study_is_named(
    verb: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "study.yaml"
    file.write_bytes(FILES[content])
    assert leaves_with_one_line([verb, str(file)], monkeypatch, capsys)
    assert "is a folder" in leaves_with_one_line([verb, str(tmp_path)], monkeypatch, capsys)


@pytest.mark.parametrize("content", [b"", bytes(range(128, 256)), b"Date,A,B\n", b"hello\nworld\n", b"Date,A\nx,1\n"])
@pytest.mark.parametrize("name", ["prices.csv", "prices.parquet"])
def test_a_file_that_holds_no_prices_is_named(
    content: bytes, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    for words in (["data", "check"], ["data", "show"], ["data", "fetch", "x", "--source"]):
        assert name in leaves_with_one_line([*words, str(file)], monkeypatch, capsys)
    assert name in leaves_with_one_line(["run", "--set", f"data.source={file}"], monkeypatch, capsys)


def test_a_file_in_the_place_of_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "runs"
    file.touch()
    for words in (
        ["run", "--set", f"tracking.folder={file}"],
        ["report", "x", "--folder", str(file)],
        ["predict", "x", "--folder", str(file)],
        ["ui", "--folder", str(file)],
        ["data", "fetch", "x", "--source", "embedded", "--folder", str(file)],
        ["data", "show", "embedded", "--output", str(file / "x.html")],
        ["data", "list", "--folder", str(file)],
    ):
        assert str(file) in leaves_with_one_line(words, monkeypatch, capsys)


DAYS = (2, 3, *range(6, 11), *range(13, 18))
TABLE = "Date,A,B\n" + "".join(f"2020-01-{day:02},1.1,2.1\n" for day in DAYS)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2020-01-99,1.1,2.1", "prices.csv: cannot read '2020-01-99' as a date like the others"),
        (",1.1,2.1", "prices.csv: row 13 of the table has prices but no date"),
        ("2020-01-03,1.3,2.1", "prices.csv: two different prices for one date: A 2020-01-03"),
        ("1020-01-03,1.3,2.1", "prices.csv: row 13 of the table is dated 1020-01-03"),
    ],
)
def test_a_file_with_a_wrong_row_is_named(
    row: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the file was read without complaint and its dates are looked at later."""
    file = tmp_path / "prices.csv"
    file.write_text(f"{TABLE}{row}\n")
    for words in (["data", "check"], ["data", "show"], ["data", "fetch", "x", "--source"]):
        assert message in leaves_with_one_line([*words, str(file)], monkeypatch, capsys)
    assert message in leaves_with_one_line(["run", "--set", f"data.source={file}"], monkeypatch, capsys)


def test_prices_that_no_policy_admits_are_named_by_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(f"{TABLE}2020-01-21,-1,2.1\n")
    shown = leaves_with_one_line(["run", "--set", f"data.source={file}"], monkeypatch, capsys)
    assert shown.startswith("error: prices.csv: ")


def test_a_spoilt_file_of_searches_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweeps.db"
    file.write_text("no database")
    words = ["sweep", *SEARCH, "--set", f"tracking.folder={tmp_path}"]
    assert f"Optuna cannot open {file}: " in leaves_with_one_line(words, monkeypatch, capsys)


def test_no_snapshots_yet_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["portfolio-dfl", "data", "list"])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    assert "make one with 'portfolio-dfl data fetch'" in capsys.readouterr().out


@pytest.mark.parametrize(("price", "code"), [("1.1", 0), ("-1", 1)])
def test_a_check_says_by_its_exit_code_whether_prices_can_be_used(
    price: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(f"Date,A,B\n2020-01-02,1,2\n2020-01-03,{price},2.1\n2020-01-06,1.2,2.2\n")
    monkeypatch.setattr(sys, "argv", ["portfolio-dfl", "data", "check", str(file)])
    with pytest.raises(SystemExit) as left:
        main()
    shown = capsys.readouterr()
    assert (left.value.code or 0) == code
    assert ("not usable" in shown.out) == bool(code)
    assert shown.err == ""


def test_an_error_reaches_the_shell_without_a_traceback(tmp_path: Path) -> None:
    shown = portfolio_dfl("run", "absent.yaml", cwd=tmp_path)
    assert shown.returncode == 2
    assert shown.stderr.startswith("error: no configuration file absent.yaml")
    assert len(shown.stderr.strip().splitlines()) == 1


CONSOLES = ["latin-1", "ascii", "cp437", "utf-8"]
SPOKEN = """
import sys
from portfolio_dfl.cli import main

for words in ("config --set name=Größe研究", "run --help", "data check embedded", "run Größe研究.yaml"):
    sys.argv = ["portfolio-dfl", *words.split()]
    try:
        main()
    except SystemExit as left:
        print(left.code or 0, file=sys.stderr)
    if words.startswith("config"):
        print("# until here")
"""


def _speak(encoding: str, folder: Path) -> None:
    """The conversation in a process whose streams are of this encoding."""
    os.chdir(folder)
    for stream, name in ((sys.stdout, "out"), (sys.stderr, "err")):
        assert isinstance(stream, io.TextIOWrapper)
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), stream.fileno())
        stream.reconfigure(encoding=encoding)
    exec(SPOKEN, {})
    sys.stdout.flush()


def judge(encoding: str, out: bytes, err: bytes, folder: Path) -> None:
    """A configuration that is read back, a table, and an error with a user's name, each in one line or whole."""
    errors = err.decode(encoding).splitlines()
    assert [line for line in errors if len(line) == 1] == ["0", "0", "0", "2"]
    assert len(errors) == 5
    assert "no configuration file Gr" in errors[3]
    file = folder / "study.yaml"
    file.write_bytes(out.partition(b"# until here")[0])
    assert load_config(file).name == "Größe研究"
    assert "usable with these policies" in out.decode(encoding)


@pytest.mark.parametrize("encoding", CONSOLES)
def test_a_console_without_our_letters_shows_what_it_can(encoding: str, tmp_path: Path) -> None:
    process = start(_speak, encoding, tmp_path)
    process.join()
    assert process.exitcode == 0
    judge(encoding, (tmp_path / "out").read_bytes(), (tmp_path / "err").read_bytes(), tmp_path)


def test_a_console_is_what_the_environment_says(tmp_path: Path) -> None:
    told = os.environ | {"PYTHONIOENCODING": "cp1252"}
    shown = subprocess.run([sys.executable, "-c", SPOKEN], capture_output=True, cwd=tmp_path, check=True, env=told)
    judge("cp1252", shown.stdout, shown.stderr, tmp_path)


def test_a_table_keeps_its_shape_on_a_console_without_lines() -> None:
    from portfolio_dfl.wording.console import spelled

    assert spelled("─── −1.5 % λ τ ∞ · …") == "--- -1.5 % lambda tau inf | ..."
    assert spelled("研") == "\\u7814"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
def test_a_study_in_another_encoding_is_read_or_named(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    mark = "\ufeff" if encoding == "utf-16-le" else ""
    file.write_bytes((mark + "# Größe\nname: Größe\n").encode(encoding))
    if encoding == "cp1252":
        with pytest.raises(ConfigError, match="not UTF-8 text, see line 1: save it as UTF-8"):
            load_config(file)
    else:
        assert load_config(file).name == "Größe"


def test_a_reader_that_goes_away_ends_the_command_silently() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "portfolio_dfl.cli", "config"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141
    process.stderr.close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_output_that_cannot_be_written_is_told() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "portfolio_dfl.cli", "config"]
        shown = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    assert shown.stderr == "error: standard output: No space left on device\n"
    assert shown.returncode == 2


def test_the_doctor_opens_with_its_own_findings() -> None:
    """Solvers print banners past Python."""
    assert portfolio_dfl("doctor").stdout.startswith("Versions\n")


def on_a_terminal(*words: str, cwd: Path) -> str:
    """What a terminal of 80 columns is sent by a command."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "portfolio_dfl.cli", *words]
    told = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, cwd=cwd, env=told)
    os.close(theirs)
    sent = b""
    with contextlib.suppress(OSError):  # the end, as Linux tells it
        while part := os.read(ours, 4096):
            sent += part
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", sent.decode())


def test_a_terminal_shows_what_is_waited_for_then_pace_and_time_left(tmp_path: Path) -> None:
    config = tmp_path / "study.yaml"
    config.write_text(brief(empty_store(tmp_path / "runs")).to_yaml(), encoding="utf-8")
    shown = on_a_terminal("train", str(config), cwd=tmp_path)
    assert shown.index("libraries, prices and MLflow are being opened") < shown.index("Training windows")
    last = shown.rstrip().splitlines()[-1]
    assert re.search(r"14/14 \S+ s each \d:\d\d:\d\d left 0:00:00", last), last
    assert len(last) <= 80
