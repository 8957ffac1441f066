"""nbgrader runs only the cells that students cannot change: grading reads data, not code.

In `nbgrader_config.py`:

    from minimlc.homework.autograde import configure
    configure(get_config())
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from nbgrader.converters import Autograde
from nbgrader.preprocessors import Execute
from nbgrader.utils import is_locked

SECONDS = 600
"""Seconds that one graded cell may take: several submissions' limits in a row."""

EXPORTED = {"hw1": ["hw1.zip"], "hw2": ["hw2.zip"], "hw3": ["hw3.zip"], "hw4": ["hw4.zip"]}
"""The submission files of the shipped assignments."""


class GradeData(Execute):
    """Runs the locked cells of a notebook, and no cell that a student wrote. Nor is a file that
    was handed in imported: the folder is not on the kernel's path.
    """

    def setup_kernel(self, **options: Any) -> Any:
        arguments = self.extra_arguments  # type: ignore[has-type]
        self.extra_arguments = [*arguments, "--IPKernelApp.ignore_cwd=True"]
        return super().setup_kernel(**options, env={**os.environ, "PYTHONSAFEPATH": "1"})

    def preprocess_cell(self, cell: Any, resources: Any, index: int) -> tuple[Any, Any]:
        if not is_locked(cell):
            return cell, resources
        return super().preprocess_cell(cell, resources, index)


def configure(config: Any, exported: Mapping[str, Sequence[str]] = EXPORTED) -> None:
    """Set up an nbgrader course to grade data. `exported` names each assignment's submission
    files, which the instructor's own must not replace.
    """
    usual = Autograde.autograde_preprocessors.make_dynamic_default()
    steps = [GradeData if step is Execute else step for step in usual]
    config.Autograde.autograde_preprocessors = steps
    config.Autograde.exclude_overwriting = {name: list(files) for name, files in exported.items()}
    config.Execute.timeout = SECONDS
