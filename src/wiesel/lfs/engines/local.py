"""The local engine: this machine, batch by batch."""

from wiesel.lfs.batch import Batch
from wiesel.lfs.cache import cache_keys
from wiesel.lfs.column_votes import assemble
from wiesel.lfs.engines.base import Engine, Job
from wiesel.lfs.engines.running import run_all
from wiesel.votes import VoteMatrix

__all__ = ["LocalEngine"]


class LocalEngine(Engine):
    """Applies labeling functions on this machine; rows in files are read batch by batch."""

    def apply(self, job: Job) -> VoteMatrix:
        """Return the votes of all labeling functions on all rows."""
        parts = []
        for batch in job.source.batches():
            batch.stop_at_failure = job.stop_at_failure
            parts.append(self._part(job, batch))
        return parts[0] if len(parts) == 1 else VoteMatrix.concatenate(parts)

    def _part(self, job: Job, batch: Batch) -> VoteMatrix:
        keys = [] if job.cache is None else cache_keys(job.lfs, batch, job.labels)
        known = {} if job.cache is None else job.cache.get(keys)
        columns = {place: known[key] for place, key in enumerate(keys) if key in known}
        waiting = [place for place in range(len(job.lfs)) if place not in columns]
        for places, votes in run_all([job.lfs[place] for place in waiting], batch, job.labels):
            fresh = {waiting[place]: column for place, column in zip(places, votes, strict=True)}
            if job.cache is not None:
                job.cache.put({keys[place]: column for place, column in fresh.items()})
            job.report(failure for column in votes for failure in column.failures)
            columns.update(fresh)
        ordered = [columns[place] for place in range(len(job.lfs))]
        return assemble(ordered, job.labels, job.voters, batch.ids)
