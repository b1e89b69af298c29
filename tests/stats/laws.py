"""Laws by what they are, so that tables of tests name those alone that are special."""

from afx import stats
from afx.stats._distribution import continuous

__all__ = ["PLAIN"]

# those of a place and a scale alone
PLAIN = [
    name
    for name in stats.__all__
    if isinstance(law := getattr(stats, name), continuous) and law._names == ("loc", "scale")
]
