"""From traced programs to the files of a module, through Jinja templates."""
