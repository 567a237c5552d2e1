"""Which job of arles a job of Slurm's is."""

import unittest

from arles import slurm
from arles.settings import from_environment

SHOWN = """JobId=7 JobName=x
   UserId=a(1) GroupId=a(1) MCS_label=N/A
   Comment=arles job=666 of=me
   AdminComment=arles job=12 of=ab12 fence=3 gpus=1 restarts=0
   WorkDir=/tmp
"""


class Slurm(unittest.TestCase):
    def test_the_operators_field_counts_and_not_the_users(self) -> None:
        self.assertEqual(slurm.job_in(SHOWN), "12")
        self.assertIsNone(slurm.job_in(SHOWN.replace("AdminComment=arles job=12", "AdminComment=arles")))
        self.assertIsNone(slurm.job_in(""))

    def test_what_is_no_number_is_not_asked_for(self) -> None:
        self.assertIsNone(slurm.job_of(""))
        self.assertIsNone(slurm.job_of("7; true"))

    def test_without_a_daemon_slurm_is_not_asked(self) -> None:
        self.assertIsNone(from_environment(environ={"SLURM_JOB_ID": "7"}))


if __name__ == "__main__":
    unittest.main()
