package dev.spindle.agent;

/** The lock was not to be had, or the term is over. */
public final class NotHeldException extends Exception {
  NotHeldException(String text) {
    super(text);
  }
}
