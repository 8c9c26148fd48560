package dev.spindle.agent;

/** The lock was not to be had, or the term is over. */
public final class NotHeldException extends Exception {
  NotHeldException(String text) {
    super(text);
  }

  /** True of this, and of what has it for its cause: Google's client wraps what a transaction throws. */
  static boolean isIn(Throwable error) {
    return error != null && (error instanceof NotHeldException || isIn(error.getCause()));
  }
}
