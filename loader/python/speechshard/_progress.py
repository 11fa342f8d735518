"""progress=True of pack, dedupe, and the others: bars of tqdm, one after another for each phase."""

import warnings


class _Bars:
    def __init__(self, tqdm):
        self._tqdm = tqdm
        self._phase = self._bar = None

    def __call__(self, phase, done, total):
        if phase != self._phase:
            self.close()
            self._phase = phase
            self._bar = self._tqdm(desc=phase, total=total or None, unit_scale=True)
        self._bar.total = total or None
        self._bar.update(done - self._bar.n)

    def line(self, text, step):
        """Show a line of a training run."""
        if self._bar is None:
            self._bar = self._tqdm(unit=" steps", initial=step)
        self._bar.set_description_str(text)
        self._bar.update(step - self._bar.n)

    def close(self):
        if self._bar is not None:
            self._bar.close()
        self._phase = self._bar = None


def bar():
    """A function for progress=. Without tqdm, a warning and None."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        warnings.warn(
            "progress=True shows nothing without tqdm; install it (pip install tqdm), or pass a "
            "function of phase, done, and total",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return _Bars(tqdm)
