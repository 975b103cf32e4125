"""What the site takes from elsewhere in the project: tutorials, pictures, the configuration and the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cells import as_page, read_cells
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_ROOT = Path(__file__).resolve().parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures that do not lie below the folder of pages."""
    for script in sorted((_ROOT / "docs" / "tutorials").glob("*.py")):
        page = as_page(read_cells(script.read_text(encoding="utf-8")))
        files.append(File.generated(config, f"tutorials/{script.stem}.md", content=page))
    for picture in sorted((_ROOT / ".images").iterdir()):
        files.append(File.generated(config, f"images/{picture.name}", abs_src_path=str(picture)))
    files.append(File.generated(config, "reference/configuration.md", content=_configuration()))
    files.append(File.generated(config, "reference/commands.md", content=_commands()))
    return files


def _configuration() -> str:
    from portfolio_dfl.config.study import StudyConfig

    return (
        "# Configuration\n\nEvery setting with its default and what it means, as `portfolio-dfl config` prints it. "
        "A file of a study gives those that differ.\n\n"
        f"``` {{ .yaml .wrapped }}\n{StudyConfig().to_yaml(comments=True)}```\n"
    )


def _commands() -> str:
    from typer.main import get_command

    from portfolio_dfl.cli import app

    lines = ["# Command line", "Errors that a user can mend are one line on standard error, with exit code 2."]
    for path, command in _leaves("portfolio-dfl", get_command(app)):
        arguments = [entry for entry in command.params if entry.param_type_name == "argument"]
        words = [entry.name.upper() if entry.required else f"[{entry.name.upper()}]" for entry in arguments]
        lines += [
            f"## {path.partition(' ')[2]}",
            f"`{' '.join([path, '[OPTIONS]', *words])}`",
            (command.help or "").strip(),
        ]
        rows = [f"| {_names(entry)} | {entry.help or ''} | {_default(entry)} |" for entry in command.params]
        if rows:
            lines.append("\n".join(["| argument or option | meaning | default |", "|---|---|---|", *rows]))
    return "\n\n".join(lines) + "\n"


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command that does something, under the words that call it."""
    if inner := getattr(command, "commands", None):
        for name, each in inner.items():
            yield from _leaves(f"{path} {name}", each)
    else:
        yield path, command


def _names(entry: Any) -> str:
    names = [entry.name.upper()] if entry.param_type_name == "argument" else [*entry.opts, *entry.secondary_opts]
    return ", ".join(f"`{name}`" for name in names)


def _default(entry: Any) -> str:
    return "" if entry.default in (None, False) or entry.required else f"`{entry.default}`"
