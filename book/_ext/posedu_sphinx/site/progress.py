"""A line of progress each while Sphinx, in its quiet mode, reads and writes pages."""

from tqdm import tqdm


class Progress:
    """Progress bars of the pages that Sphinx reads and then writes, one at a time."""

    def __init__(self):
        self.to_read, self.task, self.bar = 0, None, None

    def expect(self, app, env, names):
        """Note how many pages will be read: a listener for Sphinx's event."""
        self.to_read = len(names)

    def count(self, task):
        """Count a page that was read or written.

        ``task``, the bar's title, is ``"reading"`` or ``"writing"``; a new task ends
        the bar there is. Sphinx does not say how many pages it will write.
        """
        if task != self.task:
            self.stop()
            total = self.to_read if task == "reading" else None
            self.bar = tqdm(desc=task, total=total, unit="page", mininterval=1)
            self.task = task
        self.bar.update()

    def stop(self):
        """End the bar, if there is one."""
        if self.bar is not None:
            self.bar.close()


def setup(app):
    """Show the bars until the site is built."""
    progress = Progress()
    app.connect("env-before-read-docs", progress.expect)
    app.connect("source-read", lambda *_: progress.count("reading"))
    app.connect("html-page-context", lambda *_: progress.count("writing"))
    app.connect("build-finished", lambda *_: progress.stop())
