"""Asks one solver the queries in the files named on standard input; prints a line of name, answer and milliseconds each."""
import importlib, importlib.metadata, sys, time

solver, limit_ms = sys.argv[1], sys.argv[2]
module = importlib.import_module(solver)
print("version", importlib.metadata.version({"z3": "z3-solver"}.get(solver, solver)), flush=True)


def z3(text):
    module.set_param("timeout", int(limit_ms))
    context = module.Context()
    return module.Z3_eval_smtlib2_string(context.ref(), text)


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
    path = line.strip()
    start = time.monotonic()
    said = {"z3": z3, "cvc5": cvc5}[solver](open(path).read())
    print(path, int((time.monotonic() - start) * 1000), " ".join(said.split()), sep="\t", flush=True)
