"""All tests: ``python3 python/tests``, the same as ``python3 -m unittest discover -s python/tests``.

What is skipped is appended to the file that ``ARLES_SKIPS`` names, one line ``test<TAB>reason`` each, where ``cargo xtask test`` counts it.
"""

import os
import pathlib
import sys
import unittest


SKIPS = os.environ.get("ARLES_SKIPS")  # tests take such variables away


class Counted(unittest.TextTestResult):
    """Tells the file of every skip."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if SKIPS:
            with open(SKIPS, "a", encoding="utf-8") as file:
                file.write(f"{test.id()}\t{' '.join(reason.split())}\n")


if __name__ == "__main__":
    tests = unittest.defaultTestLoader.discover(str(pathlib.Path(__file__).resolve().parent))
    ran = unittest.TextTestRunner(resultclass=Counted).run(tests)
    sys.exit(not ran.wasSuccessful())
