package dev.spindle.agent;

import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Locks and leader election on Cloud Spanner, through {@code spindle agent} on the same host.
 *
 * <p>When the JVM is told to end, by SIGTERM for instance, each term ends first. The JVM waits for the work until the
 * deadlines, and lets go.
 */
public final class Agent implements AutoCloseable {
  private static final Duration PAUSE_MAX = Duration.ofSeconds(5);

  private final Place place;
  private final boolean releasesOnExit;
  private final Thread hook = new Thread(() -> close(true), "spindle-agent-exit");

  /** The claims of the calls that are under way, by their threads. */
  private final Map<Thread, Set<Claim>> calls = new HashMap<>();

  private boolean isClosed;

  /**
   * Where the agent is. The environment says what is null.
   *
   * @param address {@code HOST:PORT}, or the path of a socket; {@code SPINDLE_AGENT}
   * @param token the agent's secret; {@code SPINDLE_AGENT_TOKEN}
   * @param tokenFile its file, which is read anew for each request; {@code SPINDLE_AGENT_TOKEN_FILE}
   * @param releasesOnExit has the agent release for a process that dies, in {@code lead}: on a Unix socket, and Linux 6.5
   *     or later
   */
  public record Settings(String address, String token, Path tokenFile, boolean releasesOnExit) {}

  /** The work under a term. */
  public interface Work {
    void run(Term term) throws Exception;
  }

  /** Choices of a request: those of docs/agent.yaml, and the lease. */
  public static final class Options {
    private final Map<String, Object> wanted = new LinkedHashMap<>();
    private Duration lease = Duration.ofSeconds(10);

    /** Names this contender in the table. */
    public Options id(String id) {
      return with("id", id);
    }

    /** 10 s by default. */
    public Options lease(Duration lease) {
      this.lease = lease;
      return this;
    }

    /** The time for which a run is scheduled. */
    public Options slot(Instant slot) {
      return with("slot", slot.toString());
    }

    /** The period of a schedule, in place of the slot. */
    public Options every(Duration period) {
      return with("every", text(period));
    }

    /** Another choice, such as {@code attempts} of a run: text, a number or a boolean. */
    public Options with(String name, Object value) {
      wanted.put(name, value);
      return this;
    }
  }

  public Agent() {
    this(new Settings(null, null, null, false));
  }

  public Agent(Settings settings) {
    place = new Place(settings);
    releasesOnExit = settings.releasesOnExit();
    Runtime.getRuntime().addShutdownHook(hook);
  }

  /**
   * Contends until {@link #close}, and works under each term. The lock is let go of when the work has returned. An
   * exception of the work ends this, unless it says that the term is over: {@link FencedException}, or what {@link
   * Term#ensure} throws.
   */
  public void lead(String lock, Options options, Work work) throws Exception {
    Map<String, Object> wanted = new LinkedHashMap<>(options.wanted);
    wanted.put("locks", List.of(lock));
    if (releasesOnExit) {
      wanted.put("on_exit", "release");
      wanted.put("pid", ProcessHandle.current().pid());
    }
    for (Duration pause = Claim.PAUSE_MIN; ; ) {
      Claim claim = claim("/v1/lead", wanted, options.lease);
      if (claim == null) {
        return;
      }
      Term term = null;
      try {
        term = claim.gains();
        if (term != null) {
          work.run(term);
        }
      } catch (Exception error) {
        if (term == null || !isOver(error, term)) {
          throw error;
        }
      } finally {
        ended(claim, "done");
      }
      if (claim.error() instanceof AgentException refusal && refusal.isFinal()) {
        throw refusal;
      }
      pause = term == null ? paused(pause) : Claim.PAUSE_MIN;
    }
  }

  private static boolean isOver(Exception error, Term term) {
    return FencedException.isIn(error) || (NotHeldException.isIn(error) && !term.isHeld());
  }

  /** Takes the lock within {@code wait}, or tries once, and works under its term. */
  public void acquire(String lock, Duration wait, Options options, Work work) throws Exception {
    Map<String, Object> wanted = new LinkedHashMap<>(options.wanted);
    wanted.put("lock", lock);
    wanted.put("wait", text(wait));
    Claim claim = open("/v1/acquire", wanted, options.lease);
    try {
      work.run(claim.acquire(wait));
    } finally {
      ended(claim, "done");
    }
  }

  /**
   * Runs a slot of a job, unless it runs or ran elsewhere; says {@code released} once the agent has recorded the run,
   * {@code skipped}, or why it ended. An exception of the work counts as a failure of the run.
   */
  public String runOnce(String lock, Options options, Work work) throws Exception {
    Map<String, Object> wanted = new LinkedHashMap<>(options.wanted);
    wanted.put("lock", lock);
    Claim claim = open("/v1/run-once", wanted, options.lease);
    String outcome = "failed";
    String said;
    try {
      Term term = claim.gains();
      if (term == null) {
        if (claim.error() != null) {
          throw claim.error();
        }
        return claim.reason();
      }
      work.run(term);
      if (!term.isHeld()) {
        return claim.reason();
      }
      outcome = "done";
    } finally {
      said = ended(claim, outcome);
    }
    return said;
  }

  /** Ends each term, waits until the work of other threads has returned, and lets go. */
  @Override
  public void close() {
    close(false);
  }

  /** The end of the process waits for releases, and for no work that goes on beyond its deadline. */
  private synchronized void close(boolean isExit) {
    isClosed = true;
    long left = 0;
    for (Set<Claim> claims : calls.values()) {
      for (Claim claim : claims) {
        Term term = claim.term();
        // Without a term no work can be in the way of letting go.
        left = Math.max(left, (term == null ? Claim.openMax : term.remaining()).toMillis());
        claim.end();
      }
    }
    notifyAll();
    Set<Thread> others = new HashSet<>(calls.keySet());
    others.remove(Thread.currentThread());
    long end = System.nanoTime() + left * 1_000_000 + Claim.PAUSE_MIN.toNanos();
    boolean isInterrupted = false;
    while (calls.keySet().stream().anyMatch(others::contains)) {
      long untilEnd = end - System.nanoTime();
      if (isExit && untilEnd <= 0 && !isLeaving()) {
        break;
      }
      try {
        wait(isExit && untilEnd > 0 ? untilEnd / 1_000_000 + 1 : 0);
      } catch (InterruptedException interrupted) {
        isInterrupted = true;
      }
    }
    if (isInterrupted) {
      Thread.currentThread().interrupt();
    }
    forgetHook();
  }

  private boolean isLeaving() {
    return calls.values().stream().flatMap(Set::stream).anyMatch(Claim::isLeaving);
  }

  /** Has the end of the process wait no more, once nothing is held. */
  private void forgetHook() {
    if (!isClosed || !calls.isEmpty()) {
      return;
    }
    try {
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException ending) {
      // The hook runs, or has run.
    }
  }

  static String text(Duration time) {
    return time.toMillis() + "ms";
  }

  private Claim open(String path, Map<String, Object> wanted, Duration lease) throws NotHeldException {
    Claim claim = claim(path, wanted, lease);
    if (claim == null) {
      throw new NotHeldException("the agent is closed");
    }
    return claim;
  }

  /** A new claim; null once this is closed. */
  private synchronized Claim claim(String path, Map<String, Object> wanted, Duration lease) {
    if (isClosed) {
      return null;
    }
    Claim claim = new Claim(place, path, wanted, lease);
    calls.computeIfAbsent(Thread.currentThread(), thread -> new HashSet<>()).add(claim);
    return claim;
  }

  private String ended(Claim claim, String outcome) {
    String said = claim.letGo(outcome);
    synchronized (this) {
      Set<Claim> claims = calls.get(Thread.currentThread());
      claims.remove(claim);
      if (claims.isEmpty()) {
        calls.remove(Thread.currentThread());
      }
      notifyAll();
      forgetHook();
    }
    return said;
  }

  /** Waits, or until this is closed; returns the next pause. */
  private synchronized Duration paused(Duration pause) throws InterruptedException {
    long end = System.nanoTime() + (long) (pause.toNanos() * ThreadLocalRandom.current().nextDouble(0.5, 1.5));
    for (long left; !isClosed && (left = end - System.nanoTime()) > 0; ) {
      wait(left / 1_000_000 + 1);
    }
    Duration next = pause.multipliedBy(2);
    return next.compareTo(PAUSE_MAX) < 0 ? next : PAUSE_MAX;
  }
}
