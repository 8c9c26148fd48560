"""Proves I1 to I4 of one lock inductively, by two solvers. `docs/proof.md` explains it.

Its argument is the relation of `lock.sexp`, with everything that is abbreviated there in full.
"""

import argparse
import ast
import functools
import importlib
import itertools
import pathlib
import re
import sys
from collections import namedtuple
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata

# The latest time of the small world.
LATEST = 60
# How long one query may take. It takes a few seconds, and more on a busy machine.
LIMIT_MS = 100_000
# With half of the margin, which is an axiom, a claim must break as it does without a guard.
MARGIN = "axiom/all-of-the-margin-is-deducted"
# The places at which a function changes.
PLACES = ("x", "y")
CELLS = ("present", "heartbeat", "token", "wr")
NAME = re.compile(r"[^\s()]+")

# A question to a solver: texts, the first of which with a model answers, and the wanted answer.
Query = namedtuple("Query", "solver name texts wanted")
# Parameters with their sorts, guards by their full names, and values after it at the PLACES.
Action = namedtuple("Action", "parameters guards after")


def read(text):
    """Returns the terms of a text: names, and tuples of terms. Python reads its own notation."""
    quoted = NAME.sub(r"'\g<0>',", text).replace(")", "),")
    return ast.literal_eval(f"({quoted})")


def show(term):
    return term if isinstance(term, str) else f"({' '.join(map(show, term))})"


def free(term):
    """Returns the names in a term that no quantifier binds."""
    names = {term} if isinstance(term, str) else set().union(*map(free, term))
    return names - free(term[1]) if term[0] in ("forall", "exists") else names


def renamed(text, names):
    return NAME.sub(lambda name: names.get(name[0], name[0]), text)


def world_of(plot):
    """Returns the elements of each sort in the small world: as many as the plot has a use for."""
    some = {action: plot.count(action) for action in plot}
    begins = sum(some.get(name, 0) for name in ("insert", "takeover", "begin-read", "begin-write"))
    sizes = {
        "Instance": 2,
        # The gate, the write lock and a reader's; or two of any locks.
        "Row": 3 if {"begin-read", "begin-write"} & {*plot} else 2,
        "Writer": min(some.get("send", 0) + 2, 5),
        "Term": min(max(begins, 1), 3),
        "Beat": min(max(some.get("send-heartbeat", 0), 1), 2),
        "Fence": min(max(some.get("fence", 0), 1), 2),
        # Each attempt has looks at gate and write lock, though it may never look there.
        "Look": some.get("look", 0) + 1,
    }
    return tuple(
        (sort, tuple(f"{sort.lower()}{number}" for number in range(size)))
        for sort, size in sizes.items()
    )


@functools.cache
def written(term, world):
    """Returns the text of a term. In the small world, it has all elements, and no quantifiers."""
    if isinstance(term, str) or not world:
        return show(term)
    if term[0] not in ("forall", "exists"):
        return f"({' '.join(written(part, world) for part in term)})"
    quantifier, variables, body = term
    names, elements = [name for name, _ in variables], dict(world)
    every = itertools.product(*(elements[sort] for _, sort in variables))
    bodies = (renamed(written(body, world), dict(zip(names, each))) for each in every)
    return f"({'and' if quantifier == 'forall' else 'or'} {' '.join(bodies)})"


def declared(name, sorts, sort):
    return f"(declare-fun {name} ({' '.join(sorts)}) {sort})"


class Run:
    """Asks if actions, in their order, lead from such a state to such another."""

    def __init__(self, relation, small=True, skips=False, without=None):
        """`skips` lets steps be left out, in a run that is told. `without` is a guard's name."""
        self.relation, self.small, self.skips, self.without = relation, small, skips, without
        self.names = {name: f"{name}.0" for name in relation.state}
        self.lines, self.asked = ["(set-option :produce-models true)", "(set-logic ALL)"], []

    def at(self, term):
        """Returns the text of a term, with the state's names as they are called now."""
        return renamed(written(term, self.elements), self.names)

    def require(self, formula):
        self.lines.append(f"(assert {formula})")

    def text(self, start, plot, goal):
        """Returns the text, or none if no action changes what the goal speaks of."""
        self.elements = world_of(plot) if self.small else ()
        self.world()
        for formula in start:
            self.require(self.at(formula))
        at_first = self.at(goal)
        for number, action in enumerate(plot):
            self.step(number, action)
        if plot and self.at(goal) == at_first:
            return None
        self.require(self.at(goal))
        told = self.relation.claim.items() if self.skips else []
        for name, claim in told:
            self.lines.append(f"(define-fun keeps.{name} () Bool {self.at(claim)})")
            self.asked.append(f"keeps.{name}")
        self.lines.append("(check-sat)")
        if self.skips:
            self.lines.append(f"(get-value ({' '.join(self.asked)}))")
        return "\n".join(self.lines)

    def world(self):
        """Declares the sorts, what never changes, and the state."""
        elements = dict(self.elements)
        for sort in self.relation.sorts:
            each = " ".join(f"({element})" for element in elements.get(sort, ()))
            few = f"(declare-datatypes (({sort} 0)) (({each})))"
            self.lines.append(few if self.small else f"(declare-sort {sort} 0)")
        for name, sorts in (self.relation.rigid | self.relation.state).items():
            self.lines.append(declared(self.names.get(name, name), *sorts))
        for name, axiom in self.relation.axiom.items():
            if f"axiom/{name}" != self.without:
                self.require(self.at(axiom))
        for instance in elements.get("Instance", ()):
            self.require(f"(<= (lease {instance}) 9)")

    def step(self, number, name):
        """Says what an action asks for, and defines what it changes."""
        action, happens, now = self.relation.actions[name], f"do.{name}.{number}", self.names
        if self.skips:
            self.lines.append(f"(declare-const {happens} Bool)")
            self.asked.append(happens)
        own = {parameter: f"{parameter}.{number}" for parameter in action.parameters}
        for parameter, (sorts, sort) in action.parameters.items():
            self.lines.append(declared(own[parameter], sorts, sort))
            if self.small and sort == "Int" and not sorts:
                self.require(f"(<= (- {LATEST}) {own[parameter]} {LATEST})")
            if not sorts:
                self.asked.append(own[parameter])
        self.names = now | own
        for guard, formula in action.guards.items():
            if guard != self.without:
                formula = self.at(formula)
                self.require(f"(=> {happens} {formula})" if self.skips else formula)
        for changed, after in action.after.items():
            sorts, sort = self.relation.state[changed]
            places = " ".join(f"({place} {of})" for place, of in zip(PLACES, sorts))
            after = self.at(after)
            if self.skips:
                kept = renamed(show(applied(changed, sorts)), now)
                after = f"(ite {happens} {after} {kept})"
            now = now | {changed: f"{changed}.{number + 1}"}
            self.lines.append(f"(define-fun {now[changed]} ({places}) {sort} {after})")
        self.names = now
        rows = itertools.product(dict(self.elements).get("Row", ()), CELLS)
        self.asked += [f"({now[cell]} {row})" for row, cell in rows] + [now["now"]]


def applied(function, sorts):
    return (function, *PLACES[: len(sorts)]) if sorts else function


class Relation:
    """The relation, and what is asked about it: pairs of a name and the texts of a question."""

    def __init__(self, items):
        self.sorts, self.any, self.rigid, self.state = [], {}, {}, {}
        self.axiom, self.initial, self.claim, self.clause = {}, {}, {}, {}
        self.actions, self.runs, self.plots, self.guards = {}, [], [], []
        for kind, *parts in items:
            if kind == "sort":
                self.sorts.append(parts[0])
                self.any.update({name: parts[0] for name in parts[1:]})
            elif kind in ("rigid", "state"):
                sorts, sort, *names = parts
                getattr(self, kind).update({name: (sorts, sort) for name in names})
            elif kind == "action":
                self.add_action(*parts)
            elif kind in ("run", "plot"):
                getattr(self, kind + "s").append(parts)
            elif kind in ("spare", "untold"):
                setattr(self, kind, [f"{of}/{guard}" for of, *guards in parts for guard in guards])
            else:
                getattr(self, kind)[parts[0]] = self.of_all(parts[1])
        self.invariant = self.clause | self.claim
        others = {*self.spare, *self.untold}
        assert others <= set(self.guards)
        self.told_guards = [guard for guard in self.guards if guard not in others]

    def of_all(self, formula):
        """Says of all elements what a formula says of the names that stand for any."""
        bound = tuple(pair for pair in self.any.items() if pair[0] in free(formula))
        return ("forall", bound, formula) if bound else formula

    def add_action(self, name, parameters, *parts):
        parameters = {name: (sum(sorts, ()), sort) for name, *sorts, sort in parameters}
        updates = [part[1:] for part in parts if part[0] in ("cell", "then")]
        guards = [part for part in parts if part[0] not in ("cell", "then")]
        # What is `new` picks an element: there is nothing to be taken out.
        self.guards += [f"{name}/{guard}" for kind, guard, _ in guards if kind != "new"]
        after = {}
        for changed, (sorts, _) in self.state.items():
            other = before = applied(changed, sorts)
            for (function, *key), value in updates:
                if function == changed:
                    here = [("=", *pair) for pair in zip(PLACES, key) if pair[0] != pair[1]]
                    other = ("ite", ("and", *here), value, other) if here else value
            if other != before:
                after[changed] = other
        guards = {f"{name}/{guard}": formula for _, guard, formula in guards}
        self.actions[name] = Action(parameters, guards, after)

    def kept(self):
        """Returns the invariant as it is assumed: I1 follows from the rest at each moment."""
        return [formula for name, formula in self.invariant.items() if not follows(name)]

    def proof(self):
        """Asks if the invariant holds at first, and after each action."""
        yield from self.broken("initial", self.initial.values(), self.invariant)
        yield from self.broken("implied", self.kept(), filter(follows, self.invariant))
        for action in self.actions:
            yield from self.steps(action)

    def steps(self, action, without=None):
        """Asks for each clause if an action breaks it."""
        clauses = itertools.filterfalse(follows, self.invariant)
        return self.broken(without or action, self.kept(), clauses, [action], without)

    def broken(self, of, start, clauses, plot=(), without=None):
        for name in clauses:
            run = Run(self, small=False, without=without)
            if text := run.text(start, plot, ("not", self.invariant[name])):
                yield f"{of}/{name}", [text]

    def spared(self):
        """Asks if the proof passes without each guard that it can spare."""
        for guard in self.spare:
            yield from self.steps(guard.split("/")[0], without=guard)

    def told(self):
        """Asks how a claim breaks without each other guard, and with half of the margin."""
        goal = ("not", ("and", *self.claim.values()))
        for guard in [*self.told_guards, MARGIN]:
            plots = [plot for plot in self.plots if guard.split("/")[0] in ("axiom", *plot)]
            runs = [(Run(self, skips=True, without=guard), plot) for plot in plots]
            texts = [run.text(self.initial.values(), plot, goal) for run, plot in runs]
            yield f"story/{guard}", texts

    def possible(self):
        """Asks if each action happens, in one of these runs."""
        assert {action for _, *plot in self.runs for action in plot} == set(self.actions)
        for number, (goal, *plot) in enumerate(self.runs):
            yield f"possible/{number}", [Run(self).text(self.initial.values(), plot, goal)]


def follows(name):
    return name.startswith("I1")


def z3(text):
    module = importlib.import_module("z3")
    module.set_param("timeout", LIMIT_MS)
    context = module.Context()
    try:
        return module.Z3_eval_smtlib2_string(context.ref(), text)
    except module.Z3Exception as error:
        # Where there is no model, nothing can be told of it.
        return error.args[0].decode()


def cvc5(text):
    module = importlib.import_module("cvc5")
    terms = module.TermManager()
    asked = module.Solver(terms)
    asked.setOption("tlimit-per", str(LIMIT_MS))
    parser = module.InputParser(asked)
    parser.setStringInput(module.InputLanguage.SMT_LIB_2_6, text, "query")
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said += str(command.invoke(asked, parser.getSymbolManager()))
    return said


def answer(query):
    """Asks text after text, until one has a model; `target/prove/` keeps them."""
    folder = pathlib.Path("target/prove") / query.solver
    folder.mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(query.texts):
        (folder / f"{query.name.replace('/', '-')}-{number}.smt2").write_text(text)
        said = {"z3": z3, "cvc5": cvc5}[query.solver](text)
        if said.startswith("sat"):
            break
    return said


def tell(model):
    """Returns the lines that tell a run which a solver found: one for each step."""
    cells, happens, before = [], False, ""
    for name, value in read(model)[0]:
        name, *of = (name if isinstance(name, str) else name[0]).split(".")
        value = show(value)
        if name == "keeps" and value == "false":
            yield f"{of[0]} is broken"
        elif name == "do":
            step, happens = f"{of[0]:<15}", value == "true"
        elif name in CELLS:
            cells.append(value)
        elif name == "now":
            state = f"now={value}"
            for row, (present, *others) in enumerate(zip(*[iter(cells)] * len(CELLS))):
                state += f" row{row}: {' '.join(others) if present == 'true' else 'absent'}"
            cells = []
            if happens:
                yield f"{step:<48} {state if state != before else ''}".rstrip()
                before = state
        elif name != "keeps":
            step += f" {name}={value}"


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("relation", help="what is proven")
    options.add_argument("--stories", action="store_true", help="tell what each guard is for")
    options = options.parse_args()
    versions = {"z3": metadata.version("z3-solver"), "cvc5": metadata.version("cvc5")}
    relation = Relation(read(options.relation))
    proof, told = list(relation.proof()), list(relation.told())
    queries = [Query(solver, *each, "unsat") for each in proof for solver in versions]
    queries += [Query("z3", *each, "unsat") for each in relation.spared()]
    queries += [Query("z3", *each, "sat") for each in [*told, *relation.possible()]]
    is_ok = True
    with ProcessPoolExecutor() as pool:
        for query, said in zip(queries, pool.map(answer, queries)):
            found, _, model = said.partition("\n")
            if found != query.wanted:
                is_ok = False
                print(f"{query.solver}: {query.name}: {said}")
            elif model and options.stories:
                print(f"{query.name}:", *tell(model), sep="\n    ")
    guards = len(relation.guards)
    print(
        f"prove: {'ok' if is_ok else 'FAILED'} actions={len(relation.actions)}",
        f"clauses={len(relation.clause)} claims={len(relation.claim)} queries={len(proof)}",
        f"guards_removed={guards}/{guards} broken={len(relation.told_guards)}",
        f"spare={len(relation.spare)} untold={len(relation.untold)}",
        *(f"{solver}={version}" for solver, version in versions.items()),
    )
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
