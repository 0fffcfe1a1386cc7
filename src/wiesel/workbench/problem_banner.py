"""A banner on every page: labeling functions that are broken and therefore do not vote."""

from nicegui import ui

from wiesel.workbench.desk import Desk, work
from wiesel.workbench.texts import cut, words

__all__ = ["ProblemBanner"]

_LISTED = 5
_LONGEST = 400


class ProblemBanner:
    """The banner; it follows the files."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.problems: tuple[str, ...] = ()

    def build(self) -> None:
        """Show the banner; it is empty while everything can be read."""
        self.place = ui.element("div").classes("w-problems").props('role="alert"')
        self.place.set_visibility(False)
        if self.desk.space.has_lfs:
            ui.timer(0.1, self._follow, once=True)
            ui.timer(2.0, self._follow)

    async def _follow(self) -> None:
        await work(self.desk.follow_files, quiet=True)
        found = await work(self.desk.problems, quiet=True) or ()
        if found == self.problems:
            return
        self.problems = found
        self.place.clear()
        self.place.set_visibility(bool(found))
        with self.place:
            words(
                "Some labeling functions are broken. They do not vote, the others do. A run does "
                "not start before they are mended or removed.",
                tag="strong",
            )
            for problem in found[:_LISTED]:
                words(cut(problem, _LONGEST), tag="p")
            if len(found) > _LISTED:
                words(f"and {len(found) - _LISTED:,} more", tag="p")
