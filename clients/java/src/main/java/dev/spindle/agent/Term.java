package dev.spindle.agent;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** One hold on a lock, with a token that only grows. */
public final class Term {
  /** The time that a machine is suspended counts here, in hundredths of a second. */
  private static final Path UPTIME = Path.of("/proc/uptime");

  private static final long UPTIME_STEP = 10_000_000;
  private static final boolean HAS_UPTIME = Files.isReadable(UPTIME);

  private final String lock;
  private final long token;
  private final Fence fence;
  private final CompletableFuture<Void> over = new CompletableFuture<>();
  private volatile long monotonic;
  private volatile long boottime;
  private ScheduledFuture<?> deadline;

  /** Parts of the row that a transaction checks. */
  public record Fence(String table, String lock, String writer, String timestamp) {
    /** Returns a query with the parameters {@code lock}, {@code timestamp} and {@code writer}. */
    public String sql() {
      return "SELECT 1 FROM " + table + " WHERE name = @lock AND token = @timestamp AND writer = @writer";
    }
  }

  Term(Map<?, ?> told) {
    lock = (String) told.get("lock");
    token = Long.parseLong((String) told.get("token"));
    Map<?, ?> row = (Map<?, ?>) told.get("fence");
    fence =
        new Fence(
            (String) row.get("table"), (String) row.get("lock"), (String) row.get("writer"), (String) row.get("timestamp"));
    monotonic = System.nanoTime();
    renewed(told);
  }

  public String lock() {
    return lock;
  }

  public long token() {
    return token;
  }

  public Fence fence() {
    return fence;
  }

  /** True until the deadline. Ask before each step of the work: no timer fires in a process that is stopped. */
  public boolean isHeld() {
    return !over.isDone() && System.nanoTime() < monotonic && (!HAS_UPTIME || uptime() < boottime);
  }

  /** Fails unless it is held. */
  public void ensure() throws NotHeldException {
    if (!isHeld()) {
      throw new NotHeldException("lock " + lock + ": the term of token " + token + " is over here");
    }
  }

  /** Waits for so long, or until the term is over. True if it is held still. */
  public boolean await(Duration time) throws InterruptedException {
    try {
      over.get(time.toNanos(), TimeUnit.NANOSECONDS);
    } catch (ExecutionException | TimeoutException held) {
      // As the clock says.
    }
    return isHeld();
  }

  /** Runs this once the term is over. */
  public void onEnd(Runnable ends) {
    over.thenRunAsync(ends);
  }

  private static long uptime() {
    try {
      String read = Files.readString(UPTIME);
      return (long) (Double.parseDouble(read.substring(0, read.indexOf(' '))) * 1e9) + UPTIME_STEP;
    } catch (IOException | RuntimeException unread) {
      return Long.MAX_VALUE; // no term is held by a clock that can't be read
    }
  }

  /** Takes a later deadline of the same term. */
  synchronized void renewed(Map<?, ?> told) {
    Map<?, ?> until = (Map<?, ?>) told.get("deadline");
    if (until == null || over.isDone() || !String.valueOf(token).equals(told.get("token"))) {
      return;
    }
    monotonic = Math.max(monotonic, Long.parseLong((String) until.get("monotonic_ns")));
    boottime = Math.max(boottime, Long.parseLong((String) until.get("boottime_ns")));
    if (deadline != null) {
      deadline.cancel(false);
    }
    deadline = Place.TIMER.schedule(this::end, remaining().toNanos(), TimeUnit.NANOSECONDS);
  }

  Duration remaining() {
    return Duration.ofNanos(Math.max(0, monotonic - System.nanoTime()));
  }

  void end() {
    over.complete(null);
    synchronized (this) {
      deadline.cancel(false);
    }
  }
}
