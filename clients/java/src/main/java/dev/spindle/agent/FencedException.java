package dev.spindle.agent;

/** Another program leads, or nobody: the transaction must not commit. */
public final class FencedException extends RuntimeException {
  FencedException(Term term) {
    super("lock " + term.lock() + ": token " + term.token() + " is superseded");
  }

  /** True if this, or its cause, says that the fence was lost: Google's client wraps what a transaction throws. */
  public static boolean isIn(Throwable error) {
    return error != null && (error instanceof FencedException || isIn(error.getCause()));
  }
}
