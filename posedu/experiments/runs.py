"""What the experiments share: runs that are kept as they finish, and their table."""

import html
import json
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from tqdm import tqdm

from posedu.timing import provenance


@dataclass
class Runs:
    """What was run, how and on what. Subclasses name their settings and their runs."""

    made: dict[str, Any]
    settings: Any
    runs: list[Any] = field(default_factory=list)
    complete: bool = False

    settings_type: ClassVar[type]
    run_type: ClassVar[type]

    def save(self, path: str | Path) -> None:
        """Write as JSON, in one step: a reader never sees half a file."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        part.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> "Runs":
        """Read what :meth:`save` wrote."""
        stored = json.loads(Path(path).read_text())
        return cls(
            stored["made"],
            cls.settings_type(**stored["settings"]),
            [cls.run_type(**run) for run in stored["runs"]],
            stored["complete"],
        )

    @classmethod
    def begin(
        cls,
        settings: Any,
        path: str | Path | None,
        method: str,
        libraries: Sequence[str] = (),
    ) -> "Runs":
        """What an earlier call left in the file, or nothing yet.

        Raises
        ------
        ValueError
            The file was made with other settings, or by something else.
        """
        if path is None or not Path(path).exists():
            made = provenance(torch.device("cpu"), 0, tuple(libraries))
            return cls(made | {"seed": "each run's own", "method": method}, settings)
        try:
            result = cls.load(path)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path} is not a result of this experiment; give another file"
            ) from error
        if result.settings != settings:
            raise ValueError(
                f"{path} was made with {result.settings}, not with {settings}; "
                "give another file"
            )
        return result

    def add(
        self,
        make: Callable[..., Any],
        jobs: Sequence[tuple],
        *,
        processes: int,
        save_to: str | Path | None,
        describe: Callable[[Any], str],
    ) -> None:
        """Make the runs of ``jobs``, with progress, and save after each.

        When interrupted, keep what was finished.
        """
        last = len(self.runs) + len(jobs)
        self.complete = not jobs
        progress = tqdm(total=last, initial=len(self.runs), unit="run")
        try:
            with progress:
                for run in _results(make, jobs, processes):
                    self.runs.append(run)
                    self.complete = len(self.runs) == last
                    if save_to is not None:
                        self.save(save_to)
                    progress.set_postfix_str(describe(run))
                    progress.update()
        except KeyboardInterrupt:
            print(f"interrupted: {len(self.runs)} runs kept", file=sys.stderr)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The table's rows, its head first."""
        raise NotImplementedError

    def _caption(self) -> str:
        made = self.made
        return (
            f"Means of {len({run.seed for run in self.runs})} seeds ± half of their "
            f"95 % intervals; {made['device']}, torch {made['versions']['torch']}, "
            f"{made['date']}" + ("" if self.complete else "; not complete")
        )

    def __str__(self) -> str:
        rows = list(self.rows())
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
            for row in rows
        )
        return "\n".join((self._caption(), *lines))

    def _repr_html_(self) -> str:
        head, *rows = self.rows()
        cells = "".join(f'<th scope="col">{name}</th>' for name in head)
        body = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        return (
            f'<table class="posedu-table"><caption>{html.escape(self._caption())}'
            f"</caption><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
        )


@dataclass(frozen=True)
class _Job:
    """A call of one function that can be sent to another process."""

    make: Callable[..., Any]

    def __call__(self, arguments: tuple) -> Any:
        return self.make(*arguments)


def _results(
    make: Callable[..., Any], jobs: Sequence[tuple], processes: int
) -> Iterator[Any]:
    """Finished runs, in any order; with one process, in this one."""
    if processes == 1:
        yield from map(_Job(make), jobs)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, _start_worker) as pool:
        yield from pool.imap_unordered(_Job(make), jobs)


def _start_worker() -> None:
    """One thread; an interrupt is the parent's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
