package dev.spindle.agent;

import java.io.IOException;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;

/** A claim under a name of its own, its stream and its heartbeats. */
final class Claim {
  static final Duration PAUSE_MIN = Duration.ofMillis(50);

  /** So long a client that lets go waits for the answer to what it asked before. A test of that waits longer. */
  static volatile Duration openMax = Duration.ofSeconds(2);

  private static final SecureRandom RANDOM = new SecureRandom();

  private final Place place;
  private final String path;
  private final Map<String, Object> wanted;
  private final Duration beat;
  private final String name;
  private Term term;
  private boolean isOver;
  private boolean isStarting;
  private volatile boolean isLeaving;
  private boolean isLeft;
  private Place.Answer stream;
  private Place.Answer asking;
  private IOException error;
  private String reason;

  Claim(Place place, String path, Map<String, Object> wanted, Duration lease) {
    byte[] random = new byte[16];
    RANDOM.nextBytes(random);
    this.name = HexFormat.of().formatHex(random);
    this.place = place;
    this.path = path;
    this.wanted = new LinkedHashMap<>(wanted);
    this.wanted.put("claim", name);
    this.wanted.put("lease", Agent.text(lease));
    this.beat = lease.dividedBy(4);
  }

  /** Contends by a stream. Returns the first term, or null if the stream ends without one. */
  synchronized Term gains() throws InterruptedException {
    isStarting = true;
    Place.daemon(this::follow).start();
    Place.daemon(this::beats).start();
    while (term == null && !isOver) {
      wait();
    }
    return term;
  }

  /** Asks once; again under the same name where the answer was lost. */
  Term acquire(Duration wait) throws IOException, NotHeldException, InterruptedException {
    for (int attempt = 1; ; attempt++) {
      try {
        gained(place.ask("POST", path, body(), wait.plus(Place.ANSWER_MAX), this::asks));
        Place.daemon(this::beats).start();
        return term();
      } catch (AgentException refusal) {
        if (refusal.code().equals("held")) {
          throw new NotHeldException(refusal.getMessage());
        }
        throw refusal;
      } catch (IOException lost) {
        if (attempt == 3 || !pause(PAUSE_MIN)) {
          throw lost;
        }
      }
    }
  }

  synchronized Term term() {
    return term;
  }

  synchronized IOException error() {
    return error;
  }

  synchronized String reason() {
    return reason == null ? "gone" : reason;
  }

  /** True once its release has begun. */
  boolean isLeaving() {
    return isLeaving;
  }

  /** Ends the term, before the work has stopped. */
  synchronized void end() {
    isOver = true;
    if (term != null) {
      term.end();
    } else if (asking != null) {
      asking.close();
    }
    notifyAll();
  }

  private synchronized void asks(Place.Answer begun) {
    asking = begun;
    if (isOver) {
      begun.close();
    }
  }

  /**
   * Says that the work has stopped. Returns what came of it: {@code gone} without the agent's answer. Its end stands
   * all the same: then the lease runs out.
   */
  String letGo(String outcome) {
    isLeaving = true;
    end();
    if (!awaitStream()) {
      leave();
    }
    Object said = null;
    boolean isInterrupted = false;
    do {
      // An interrupt closes the connection of its thread: without it, the same is asked again.
      isInterrupted |= Thread.interrupted();
      try {
        String path = "/v1/claims/" + name + "?outcome=" + outcome;
        said = place.ask("DELETE", path, Map.of(), Place.ANSWER_MAX, answer -> {}).get("outcome");
      } catch (IOException unanswered) {
        // The lease runs out.
      }
    } while (Thread.currentThread().isInterrupted());
    if (isInterrupted) {
      Thread.currentThread().interrupt();
    }
    leave();
    return said == null ? "gone" : said.toString();
  }

  /** Ends the stream, also one that is yet to open. */
  private synchronized void leave() {
    isLeft = true;
    if (stream != null) {
      stream.close();
    }
  }

  /** Once the stream is there, its request can't come after the next one. False if it isn't. */
  private synchronized boolean awaitStream() {
    long end = System.nanoTime() + openMax.toNanos();
    boolean isInterrupted = false;
    for (long left; isStarting && (left = end - System.nanoTime()) > 0; ) {
      try {
        wait(left / 1_000_000 + 1);
      } catch (InterruptedException interrupted) {
        isInterrupted = true;
      }
    }
    if (isInterrupted) {
      Thread.currentThread().interrupt();
    }
    return !isStarting;
  }

  /** Waits for so long; false if the claim is over first. */
  private synchronized boolean pause(Duration time) throws InterruptedException {
    long end = System.nanoTime() + time.toNanos();
    for (long left; !isOver && (left = end - System.nanoTime()) > 0; ) {
      wait(left / 1_000_000 + 1);
    }
    return !isOver;
  }

  private Map<String, Object> body() {
    Map<String, Object> body = new LinkedHashMap<>(wanted);
    body.put("clock", Map.of("monotonic_ns", Long.toString(System.nanoTime())));
    return body;
  }

  private void follow() {
    try (Place.Answer opened = place.open("POST", path, body(), Place.SILENCE_MAX, this::opens)) {
      started();
      for (String line = opened.line(); line != null; line = opened.line()) {
        if (line.startsWith("data: ")) {
          told(Json.object(line.substring(6)));
        }
      }
    } catch (IOException failed) {
      synchronized (this) {
        error = failed;
      }
    } finally {
      // However the stream ends, nothing is held any more.
      started();
      end();
    }
  }

  private synchronized void opens(Place.Answer begun) {
    stream = begun;
    if (isLeft) {
      begun.close();
    }
  }

  private synchronized void started() {
    isStarting = false;
    notifyAll();
  }

  private synchronized void told(Map<?, ?> told) {
    switch (String.valueOf(told.get("event"))) {
      case "gained" -> gained(told);
      case "renewed" -> renewed(told);
      case "lost", "ending", "ended" -> {
        Object why = told.get("reason");
        reason = String.valueOf(why == null ? told.get("event") : why);
        end();
      }
      default -> {}
    }
  }

  private synchronized void gained(Map<?, ?> told) {
    term = new Term(told);
    term.onEnd(this::end);
    if (isOver) {
      term.end();
    }
    notifyAll();
  }

  private synchronized void renewed(Map<?, ?> told) {
    if (term != null) {
      term.renewed(told);
    }
  }

  private void beats() {
    // The agent can't tell a stopped process by its connection.
    try {
      while (pause(beat)) {
        beatOnce();
      }
    } catch (InterruptedException ended) {
      // Nobody interrupts this thread.
    }
  }

  private void beatOnce() {
    try {
      Map<?, ?> told = place.ask("POST", "/v1/claims/" + name + "/heartbeat", Map.of(), beat.multipliedBy(2), answer -> {});
      renewed(told);
      if (Boolean.TRUE.equals(told.get("ending")) && term() != null) {
        end();
      }
    } catch (AgentException refusal) {
      if (refusal.code().equals("no_such_claim") && term() != null) {
        end();
      }
    } catch (IOException unanswered) {
      // The next one is due soon, and the deadline stands.
    }
  }
}
