package dev.spindle.agent;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** The package, with agents and locks that are real. {@code clients/test} has the database, and javac alone. */
public final class PackageTest {
  private static final Duration SHORT = Duration.ofSeconds(2);
  private static final Duration LONG = Duration.ofSeconds(20);
  private static final String ON_TCP = "--listen=127.0.0.1:0";
  private static final ExecutorService OTHERS = Executors.newCachedThreadPool(Place::daemon);

  private interface Test {
    void run() throws Exception;
  }

  /** Ends a loop of terms. */
  private static final class Enough extends Exception {
    private static final long serialVersionUID = 1;
  }

  /** An agent of the program's. */
  private record Started(Process process, String address) implements AutoCloseable {
    static Started at(String... arguments) throws Exception {
      List<String> command = new ArrayList<>(List.of(System.getenv("SPINDLE_PROGRAM"), "agent"));
      command.addAll(List.of(arguments));
      Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
      String address = firstLine(process).split(" ")[2].replaceAll("^http://|/$", "");
      return new Started(process, address);
    }

    Agent agent() {
      return new Agent(new Agent.Settings(address, null, null, false));
    }

    @Override
    public void close() {
      process.destroyForcibly();
    }
  }

  private record Told(Term term, Duration took) {}

  public static void main(String[] arguments) throws Exception {
    if (arguments.length > 0) {
      serves(arguments[0]);
      return;
    }
    Map<String, Test> tests =
        Map.ofEntries(
            Map.entry("a term lasts longer than its lease, and is let go of", PackageTest::lasts),
            Map.entry("a lock of another is not acquired", PackageTest::acquires),
            Map.entry("a slot runs once, and again after a failure", PackageTest::runs),
            Map.entry("a socket, and a secret that is written anew", PackageTest::secrets),
            Map.entry("a child has no connection of its parent", PackageTest::children),
            Map.entry("an agent that ends, and one that dies", PackageTest::ends),
            Map.entry("work that was interrupted lets go", PackageTest::interrupted),
            Map.entry("close ends the work first, and lets go then", PackageTest::closes),
            Map.entry("a contender that is closed before its request arrives", PackageTest::early),
            Map.entry("a service that is told to end lets go", PackageTest::sigterm),
            Map.entry("JSON, refusals, and clocks", PackageTest::parts));
    int failed = 0;
    for (var test : tests.entrySet()) {
      try {
        Future<?> run = OTHERS.submit(() -> { test.getValue().run(); return null; });
        run.get(60, TimeUnit.SECONDS);
        System.out.println("ok " + test.getKey());
      } catch (Exception error) {
        failed++;
        System.out.println("FAILED " + test.getKey());
        error.printStackTrace(System.out);
      }
    }
    System.out.println(tests.size() - failed + " passed, " + failed + " failed");
    System.exit(failed);
  }

  private static void check(boolean isTrue, Object said) {
    if (!isTrue) {
      throw new AssertionError(said);
    }
  }

  private static String firstLine(Process process) throws Exception {
    return new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
  }

  private static Agent.Options lease(Duration lease) {
    return new Agent.Options().lease(lease);
  }

  /** Leads for one term. */
  private static Told leads(Agent agent, String lock, Duration lease, Agent.Work work) throws Exception {
    long began = System.nanoTime();
    Told[] told = new Told[1];
    try {
      agent.lead(
          lock,
          lease(lease),
          term -> {
            told[0] = new Told(term, Duration.ofNanos(System.nanoTime() - began));
            work.run(term);
            throw new Enough();
          });
    } catch (Enough enough) {
      return told[0];
    }
    throw new AssertionError("it ended by itself");
  }

  private static void leadsSoon(Agent agent, String lock) throws Exception {
    Told told = leads(agent, lock, LONG, term -> {});
    check(told.took.toSeconds() < 8, lock + ": " + told.took);
  }

  private static void lasts() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      Told first = leads(agent, "java-lead", SHORT, term -> check(term.await(Duration.ofSeconds(3)), "renewed"));
      check(!first.term.isHeld(), "it is let go of");
      try {
        first.term.ensure();
        throw new AssertionError("it is held");
      } catch (NotHeldException over) {
        Told after = leads(agent, "java-lead", LONG, term -> {});
        check(after.term.token() > first.term.token() && after.took.toSeconds() < 5, after);
      }
    }
  }

  private static void acquires() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      agent.acquire(
          "java-acquire",
          Duration.ZERO,
          lease(LONG),
          term -> {
            try {
              agent.acquire("java-acquire", Duration.ZERO, lease(LONG), other -> {});
              throw new AssertionError("two hold it");
            } catch (NotHeldException held) {
              check(term.isHeld(), "the first holds it");
            }
          });
      agent.acquire(
          "java-acquire",
          Duration.ofSeconds(10),
          lease(SHORT),
          term -> check(term.await(Duration.ofSeconds(3)), "its heartbeats tell later deadlines"));
    }
  }

  private static void runs() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      Agent.Options options = new Agent.Options().slot(Instant.now()).with("retry_pause", "100ms");
      try {
        agent.runOnce("java-job", options, term -> { throw new Enough(); });
        throw new AssertionError("the work fails");
      } catch (Enough enough) {
        int[] runs = {0};
        String first = agent.runOnce("java-job", options, term -> runs[0]++);
        String second = agent.runOnce("java-job", options, term -> runs[0]++);
        check((first + " " + second + " " + runs[0]).equals("released skipped 1"), first + second);
      }
    }
  }

  private static void secrets() throws Exception {
    Path folder = Files.createTempDirectory("spindle");
    var owners = PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));
    Path secret = Files.createFile(folder.resolve("token"), owners);
    Files.writeString(secret, "the first of two secrets");
    Map<String, String> said = Map.of("SPINDLE_AGENT_TOKEN_FILE", secret.toString());
    for (String none : new String[] {null, ""}) {
      Place place = new Place(new Agent.Settings("", none, null, false), said);
      check("the first of two secrets".equals(place.secret()), "the file of the environment");
    }
    check(new Place(new Agent.Settings("", "given", null, false), said).secret().equals("given"), "what is given goes before");
    try (Started started = Started.at("--socket=" + folder + "/agent.sock", "--token-file=" + secret);
        Agent agent = new Agent(new Agent.Settings(started.address, null, secret, true));
        Agent other = new Agent(new Agent.Settings(started.address, "something else altogether", null, false))) {
      for (String text : List.of("the first of two secrets", "another secret, and longer")) {
        Files.writeString(secret, text);
        leads(agent, "java-secret", LONG, term -> check(term.isHeld(), text));
      }
      try {
        other.acquire("java-secret", Duration.ZERO, lease(LONG), term -> {});
        throw new AssertionError("it has no right to");
      } catch (AgentException refusal) {
        check(refusal.code().equals("unauthorized"), refusal);
      }
    }
  }

  private static void children() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      leads(
          agent,
          "java-child",
          LONG,
          term -> {
            Process child = new ProcessBuilder("sleep", "60").inheritIO().start();
            check(child.info().command().orElse("").endsWith("sleep"), child.info());
            List<String> sockets = new ArrayList<>();
            try (var files = Files.list(Path.of("/proc/" + child.pid() + "/fd"))) {
              for (Path file : (Iterable<Path>) files::iterator) {
                String link = Files.readSymbolicLink(file).toString();
                if (link.startsWith("socket:") && Integer.parseInt(file.getFileName().toString()) > 2) {
                  sockets.add(link);
                }
              }
            } finally {
              child.destroyForcibly();
            }
            check(sockets.isEmpty(), sockets);
          });
    }
  }

  private static void ends() throws Exception {
    String at = "--socket=" + Files.createTempDirectory("spindle") + "/agent.sock";
    try (Started first = Started.at(ON_TCP); Started second = Started.at(at);
        Agent one = first.agent(); Agent other = second.agent()) {
      leads(
          one,
          "java-ending",
          LONG,
          term -> {
            first.process.destroy();
            long told = System.nanoTime();
            check(!term.await(LONG), "the agent ends");
            check(System.nanoTime() - told < 3e9, "its stream says so, before its heartbeat does");
          });
      leadsSoon(other, "java-ending");
      int[] terms = {0};
      Started[] again = new Started[1];
      try {
        other.lead(
            "java-dies",
            lease(SHORT),
            term -> {
              if (++terms[0] == 1) {
                throw new IllegalStateException("as Google's client wraps it", new FencedException(term));
              } else if (terms[0] == 3) {
                throw new Enough();
              }
              second.process.destroyForcibly().waitFor();
              check(!term.await(LONG), "its stream has ended");
              again[0] = Started.at(at);
              try {
                term.ensure();
              } catch (NotHeldException over) {
                throw new IllegalStateException("as Google's client wraps it", over);
              }
            });
      } catch (Enough enough) {
        again[0].close();
      }
    }
  }

  private static void interrupted() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      leads(agent, "java-interrupted", LONG, term -> Thread.currentThread().interrupt());
      check(Thread.interrupted(), "who has called learns of it");
      leadsSoon(agent, "java-interrupted");
    }
  }

  private static void closes() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent(); Agent other = started.agent()) {
      CountDownLatch begun = new CountDownLatch(1);
      List<String> steps = new ArrayList<>();
      OTHERS.submit(
          () -> {
            agent.lead(
                "java-close",
                lease(LONG),
                term -> {
                  begun.countDown();
                  check(!term.await(LONG), "it is closed");
                  Thread.sleep(200);
                  steps.add("work");
                });
            return null;
          });
      begun.await();
      agent.close();
      steps.add("closed");
      check(steps.equals(List.of("work", "closed")), steps);
      leadsSoon(other, "java-close");
      // Inside its own work it waits for no one.
      leads(other, "java-close", LONG, term -> other.close());
    }
  }

  private static void early() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent other = started.agent();
        ServerSocket relay = new ServerSocket(0, 9, InetAddress.getLoopbackAddress());
        Agent agent = new Agent(new Agent.Settings("127.0.0.1:" + relay.getLocalPort(), null, null, false))) {
      CountDownLatch relayed = new CountDownLatch(1);
      OTHERS.submit(
          () -> {
            for (Socket client; (client = relay.accept()) != null; ) {
              Socket accepted = client;
              OTHERS.submit(() -> { relay(accepted, started.address, relayed); return null; });
            }
            return null;
          });
      Future<?> leading = OTHERS.submit(() -> { agent.lead("java-early", lease(LONG), term -> {}); return null; });
      Thread.sleep(100);
      agent.close();
      leading.get(20, TimeUnit.SECONDS);
      relayed.await(20, TimeUnit.SECONDS);
      leadsSoon(other, "java-early");
    }
  }

  /** Passes a request to lead on late, and keeps its connection for a while. */
  private static void relay(Socket client, String address, CountDownLatch relayed) throws Exception {
    String[] place = address.split(":");
    try (client; Socket agent = new Socket(place[0], Integer.parseInt(place[1]))) {
      byte[] bytes = new byte[8192];
      int length = client.getInputStream().read(bytes);
      boolean isLead = new String(bytes, 0, length).contains("/v1/lead");
      Thread.sleep(isLead ? 300 : 50);
      length += client.getInputStream().available() > 0 ? client.getInputStream().read(bytes, length, 8192 - length) : 0;
      agent.getOutputStream().write(bytes, 0, length);
      OTHERS.submit(() -> agent.getInputStream().transferTo(client.getOutputStream()));
      while (client.getInputStream().read(bytes) >= 0) {}
      Thread.sleep(500);
      if (isLead) {
        relayed.countDown();
      }
    }
  }

  /** A service that leads until it is told to end; its work never stops where that is said. */
  private static void serves(String kind) throws Exception {
    try (Agent agent = new Agent()) {
      Duration lease = kind.equals("stops") ? LONG : SHORT;
      agent.lead(
          "java-sigterm",
          lease(lease),
          term -> {
            System.out.println("leads");
            while (term.await(LONG) || !kind.equals("stops")) {}
          });
    }
  }

  private static void sigterm() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      for (String kind : List.of("stops", "goes on")) {
        String path = System.getProperty("java.class.path");
        ProcessBuilder service = new ProcessBuilder("java", "-Xshare:auto", "-cp", path, PackageTest.class.getName(), kind);
        service.environment().put("SPINDLE_AGENT", started.address);
        Process process = service.redirectError(ProcessBuilder.Redirect.INHERIT).start();
        try {
          check(firstLine(process).equals("leads"), "it leads");
          process.destroy();
          check(process.waitFor(20, TimeUnit.SECONDS) && process.exitValue() == 143, "it ends");
        } finally {
          process.destroyForcibly();
        }
        // A contender waits for a lease of its own, too.
        Told told = leads(agent, "java-sigterm", SHORT, term -> {});
        check(told.took.toSeconds() < 8, kind + ": " + told.took);
      }
    }
  }

  private static void parts() throws Exception {
    Map<?, ?> read = Json.object("{\"a\": [1, true, null, {}], \"b\": \"x\\u00e9\\n\\\"\\\\\"}\n");
    check(read.toString().equals("{a=[1.0, true, null, {}], b=xé\n\"\\}"), read);
    check(Json.write(read).equals("{\"a\":[1.0,true,null,{}],\"b\":\"xé\\u000a\\u0022\\u005c\"}"), Json.write(read));
    for (String cut : List.of("", "{", "{\"a\":", "{\"a\": 1", "{} {}", "{\"a\" 1}", "[]")) {
      try {
        throw new AssertionError(Json.object(cut));
      } catch (java.io.IOException none) {
        check(none.getMessage().contains(cut), none);
      }
    }
    for (String address : List.of("localhost", "a_b:9465")) {
      try {
        throw new AssertionError(new Agent(new Agent.Settings(address, null, null, false)));
      } catch (IllegalArgumentException refused) {
        check(refused.getMessage().contains(address), refused);
      }
    }
    check(new Agent(new Agent.Settings("", "", null, false)) != null, "what is empty is left out");
    // No label of a name is as long, so no server is asked for it.
    String unknown = "x".repeat(64) + ":9465";
    try (Agent agent = new Agent(new Agent.Settings(unknown, null, null, false))) {
      agent.acquire("java-unknown", Duration.ZERO, lease(LONG), term -> {});
      throw new AssertionError("nobody has this name");
    } catch (java.net.UnknownHostException none) {
      check(unknown.startsWith(none.getMessage()), none);
    }
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      agent.lead("java-bad", new Agent.Options().id(">id"), term -> {});
      throw new AssertionError("no repetition cures it");
    } catch (AgentException refusal) {
      check(refusal.code().equals("bad_request") && refusal.isFinal(), refusal);
    }
    String soon = Long.toString(System.nanoTime());
    String far = Long.toString(System.nanoTime() + 1_000_000_000_000_000L);
    for (String[] deadline : new String[][] {{soon, far}, {far, soon}}) {
      Map<?, ?> until = Map.of("monotonic_ns", deadline[0], "boottime_ns", deadline[1]);
      check(!new Term(Map.of("lock", "a", "token", "1", "fence", Map.of(), "deadline", until)).isHeld(), deadline);
    }
  }
}
