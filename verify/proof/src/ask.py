"""Asks one solver the queries in the files named on standard input, and prints an answer to each line of them."""
import importlib, importlib.metadata, sys

solver, limit_ms = sys.argv[1], sys.argv[2]
module = importlib.import_module(solver)
print("version", importlib.metadata.version({"z3": "z3-solver"}.get(solver, solver)), flush=True)


def z3(text):
    module.set_param("timeout", int(limit_ms))
    context = module.Context()
    try:
        return module.Z3_eval_smtlib2_string(context.ref(), text)
    except module.Z3Exception as error:
        # Where there is no model, nothing can be told of it.
        return error.args[0].decode()


def cvc5(text):
    terms = module.TermManager()
    asked = module.Solver(terms)
    asked.setOption("tlimit-per", limit_ms)
    parser = module.InputParser(asked)
    parser.setStringInput(module.InputLanguage.SMT_LIB_2_6, text, "query")
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said += str(command.invoke(asked, parser.getSymbolManager()))
    return said


for line in sys.stdin:
    # One after the other, until one has a model.
    for path in line.split():
        said = {"z3": z3, "cvc5": cvc5}[solver](open(path).read())
        if said.startswith("sat"):
            break
    print(" ".join(said.split()), flush=True)
