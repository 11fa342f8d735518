"""test_train_world under mpirun: one, two, three and four processes end with the same bits,
whatever the strategy; a rank that hangs, dies or has another model ends all others with a message
that says so.

    mpi_world_test.py TEST_TRAIN_WORLD [TEST...]
"""
import re
import sys

from mpi_kit import check, equal, mpirun, need_mpirun, run_tests

PROGRAM = sys.argv[1]


def same(virtual_world, accumulate, *counts):
    """Check that all ranks print the same hash."""
    want = None
    for strategy in ["allreduce", "partitioned"]:
        for count in counts:
            done = mpirun(count, PROGRAM, strategy, virtual_world, accumulate)
            found = re.findall("^hash (.*)$", done.output, re.MULTILINE)
            check(done.returncode == 0 and len(found) == 1,
                  f"{strategy}, {count} processes: exit {done.returncode}: {done.output}")
            want = want or found
            equal(found, want, f"{strategy}, {count} processes")


def ends(fault, rank, text):
    done = mpirun(3, PROGRAM, "allreduce", 8, 1, fault, rank)
    check(done.returncode != 0 and re.search(text, done.output),
          f"{fault} of rank {rank}: exit {done.returncode}: {done.output}")


def test_eight_leaves():
    same(8, 1, 1, 2, 3, 4)


def test_accumulated():
    same(4, 2, 1, 3)


def test_five_leaves():
    same(5, 1, 2, 3)


def test_faults():
    ends("hang", 2, "rank 2 is missing: step 3")
    ends("hang", 0, "rank 0 is missing: step 3")
    ends("kill", 1, "rank 1 .*signal 9")
    ends("other-model", 1, "same configuration")


need_mpirun()
if mpirun(2, PROGRAM, "allreduce", 2, 1).returncode == 77:
    print("skipped: built without MPI")
    sys.exit(77)
run_tests(test_eight_leaves, test_accumulated, test_five_leaves, test_faults, only=sys.argv[2:])
