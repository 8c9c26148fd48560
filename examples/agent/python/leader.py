"""Writes one fenced order after the other, while it leads: leader.py DATABASE ID."""

import os
import sys
import time

from google.cloud import spanner
from google.cloud.spanner_v1 import TransactionOptions

import spindle_agent

# If this process dies before the commit, its transaction keeps no lock, and the next leader waits for the lease alone.
OPTIMISTIC = TransactionOptions.ReadWrite.ReadLockMode.OPTIMISTIC


def write(transaction, term, id):
    term.check(transaction)
    order = [os.urandom(8).hex(), id, term.token, spanner.COMMIT_TIMESTAMP]
    transaction.insert("orders", ["id", "leader", "token", "written"], [order])


def main(path, id):
    _, project, _, instance, _, database = path.split("/")
    orders = spanner.Client(project=project).instance(instance).database(database)
    with spindle_agent.Agent() as agent:
        for term in agent.lead("orders", id=id, lease=4):
            while term.is_held():
                print("works", term.token, flush=True)
                time.sleep(0.5)  # it prepares the order, and the process may be stopped for an hour
                try:
                    orders.run_in_transaction(write, term, id, read_lock_mode=OPTIMISTIC)
                    print("wrote", term.token, flush=True)
                except spindle_agent.Fenced as error:
                    print("fenced", error, flush=True)


main(*sys.argv[1:])
