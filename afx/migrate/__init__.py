"""Migration: ``python -m afx.migrate autograd PATH`` rewrites programs of another library, and names what is left to do.

Files are read as Python and only imports, and names such as ``autograd.jacobian``, are replaced; the rest of the text
stays as it is. What has other arguments in autograd is found in `afx.migrate.for_autograd`, random numbers in
`numpy.random`, and a program that runs by itself begins with float64. What has another form in afx is printed with its line and
what to write.
"""

from afx.migrate.command import main as main, migrate_source as migrate_source
from afx.migrate.rewriting import Edit as Edit, Remark as Remark

__all__ = ["Edit", "Remark", "main", "migrate_source"]
