"""The Jinja environment: undefined fields are errors, blocks leave no blank lines."""

from __future__ import annotations

import re
import traceback
from functools import cache
from textwrap import TextWrapper
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
        InternalError: the template uses a field that the view does not have.
    """
    try:
        text = _environment().get_template(template).render(view)
    except jinja2.TemplateError as error:
        frames = traceback.extract_tb(error.__traceback__)
        places = [frame for frame in frames if frame.filename.endswith(".jinja")]
        place = f"{places[-1].filename}:{places[-1].lineno}" if places else template
        raise InternalError(f"{place}: {error}") from error
    return _LONG_COMMENT.sub(_wrapped, text)


# A long comment line: names of frames, lists of arrays, citations.
_LONG_COMMENT = re.compile(r"^( *///? *)(?=.{100})(\S.*)$", re.MULTILINE)
_COLUMNS = 110


def _wrapped(line: re.Match[str]) -> str:
    head, text = line.groups()
    if len(head) + len(text) <= _COLUMNS:
        return line[0]
    wrapper = TextWrapper(_COLUMNS, initial_indent=head, subsequent_indent=f"{head}  ")
    wrapper.break_long_words = wrapper.break_on_hyphens = False
    return "\n".join(wrapper.wrap(text))
