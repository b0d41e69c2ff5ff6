"""The Jinja environment: undefined fields are errors, blocks leave no blank lines behind."""

from __future__ import annotations

import traceback
from functools import cache
from typing import Any

import jinja2

from gridgen.errors import InternalError
from gridgen.template_root import template_root


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_root()),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def render(template: str, view: dict[str, Any]) -> str:
    """Return a template filled in with a view.

    Args:
        template: path below the template tree, ``thread/robot.cu.jinja``.
        view:     the template's fields; its header comment lists them.

    Raises:
        InternalError: the template asks for a field that the view does not have.
    """
    try:
        return _environment().get_template(template).render(view)
    except jinja2.TemplateError as error:
        frames = traceback.extract_tb(error.__traceback__)
        places = [frame for frame in frames if frame.filename.endswith(".jinja")]
        place = f"{places[-1].filename}:{places[-1].lineno}" if places else template
        raise InternalError(f"{place}: {error}") from error
