"""Executes the chapters and binds them to a book of static pages.

`execute` runs one notebook, `run` all of them with a verdict each, `page` writes the HTML.
"""
