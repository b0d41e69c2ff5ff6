"""What the templates of the hybrid schedule see: what those of the scan schedule do."""

from gridgen.emit.views.scan import template_view

__all__ = ["template_view"]
