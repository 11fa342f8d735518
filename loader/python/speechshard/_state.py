"""The options of a Loader that determine its order, as text in its state."""

ORDER = (
    "seed", "max_seconds", "max_padded_seconds", "max_utterances", "long", "alpha", "weights", "unit",
    "splits", "domains", "languages", "min_duration", "max_duration", "max_per_speaker",
    "duplicates", "output", "sample_rate_hz", "channel", "shuffle", "window", "virtual_world_size",
    "drop_last",
)  # fmt: skip


def order_options(keywords):
    """Return {name: repr(value)} of the keywords that determine the order."""
    return {name: repr(keywords[name]) for name in ORDER if keywords.get(name) is not None}


def differences(saved, options):
    """Name the options that differ, such as "the state has seed=1, the loader has seed=2"."""
    names = [name for name in ORDER if saved.get(name) != options.get(name)]

    def listed(values):
        return ", ".join(f"{name}={values.get(name, 'default')}" for name in names)

    return f"the state has {listed(saved)}; the loader has {listed(options)}" if names else None


def describe(datasets, keywords):
    """Return the repr of a Loader."""
    given = "".join(f", {name}={value!r}" for name, value in keywords.items() if value is not None)
    return f"speechshard.Loader({datasets!r}{given})"
