"""Results of sequence experiments whose accuracies are known, for tests of verdicts."""

MADE = {
    **{"date": "2026-01-01", "device": "cpu", "threads": 1, "commit": "abc"},
    "versions": {"torch": "2"},
}


def result_of(result_type, method, accuracy):
    """Return a result of three seeds of every task and model.

    Parameters
    ----------
    result_type
        An experiment's ``Result``, of :mod:`posedu.book.experiments.sequences` or a
        subclass.
    method
        The experiment's ``METHOD``.
    accuracy
        A function of task, model, multiple of the training length and seed.
    """
    settings, run_type = result_type.settings_type(), result_type.run_type
    multiples = {m: str(m * settings.length) for m in result_type.multiples}
    runs = [
        run_type(
            task=task,
            encoding=name,
            seed=seed,
            accuracy={n: accuracy(task, name, m, seed) for m, n in multiples.items()},
            loss=0.0,
            seconds=1.0,
            made=MADE,
        )
        for task in run_type.tasks
        for name in run_type.conditions
        for seed in (1, 2, 3)
    ]
    return result_type(method, settings, runs)
