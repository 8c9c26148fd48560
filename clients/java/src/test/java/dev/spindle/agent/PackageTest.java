package dev.spindle.agent;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** The package, with agents and locks that are real. {@code clients/test} has the database, and javac alone. */
public final class PackageTest {
  /** What is waited for comes within this, also on a busy machine. A lease of LONG runs out later than that. */
  private static final Duration WITHIN = Duration.ofSeconds(40);

  private static final Duration LONG = Duration.ofSeconds(60);

  /** A term that is held for LATER has outlasted its LEASE. */
  private static final Duration LEASE = Duration.ofSeconds(6);

  private static final Duration LATER = Duration.ofSeconds(8);

  /** A lease that is to run out. */
  private static final Duration SHORT = Duration.ofSeconds(2);

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
            Map.entry("a run is released if the agent says so alone", PackageTest::says),
            Map.entry("a contender that is closed before its request arrives", PackageTest::early),
            Map.entry("a service that is told to end lets go", PackageTest::sigterm),
            Map.entry("a service that is told to end waits for the answer to a release", PackageTest::awaitsRelease),
            Map.entry("JSON, refusals, and clocks", PackageTest::parts));
    // At the same time, since most of them wait.
    Map<String, Future<?>> runs = new HashMap<>();
    tests.forEach((name, test) -> runs.put(name, OTHERS.submit(() -> { test.run(); return null; })));
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(140);
    int failed = 0;
    for (var test : runs.entrySet()) {
      try {
        test.getValue().get(end - System.nanoTime(), TimeUnit.NANOSECONDS);
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

  /** Leads for one term, which comes sooner than by the end of another's lease of LONG. */
  private static Term leads(Agent agent, String lock, Duration lease, Agent.Work work) throws Exception {
    long began = System.nanoTime();
    Term[] told = new Term[1];
    try {
      agent.lead(
          lock,
          lease(lease),
          term -> {
            Duration took = Duration.ofNanos(System.nanoTime() - began);
            check(took.compareTo(WITHIN) < 0, lock + " was not let go of: " + took);
            told[0] = term;
            work.run(term);
            throw new Enough();
          });
    } catch (Enough enough) {
      return told[0];
    }
    throw new AssertionError("it ended by itself");
  }

  private static void lasts() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      Term first = leads(agent, "java-lead", LEASE, term -> check(term.await(LATER), "renewed"));
      check(!first.isHeld(), "it is let go of");
      try {
        first.ensure();
        throw new AssertionError("it is held");
      } catch (NotHeldException over) {
        Term after = leads(agent, "java-lead", LONG, term -> {});
        check(after.token() > first.token(), after.token());
        leads(agent, "java-lead", LONG, term -> {});
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
          WITHIN,
          lease(LEASE),
          term -> check(term.await(LATER), "its heartbeats tell later deadlines"));
    }
  }

  private static void runs() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      Agent.Options options = lease(LONG).slot(Instant.now()).with("retry_pause", "100ms");
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

  /** An agent that is played: it answers a stream with a term that lasts so long, and its release as this says. */
  private static HttpServer played(Duration lasts, HttpHandler release) throws IOException {
    HttpServer played = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 9);
    played.setExecutor(OTHERS);
    played.createContext(
        "/",
        exchange -> {
          if (exchange.getRequestMethod().equals("DELETE")) {
            try (exchange) {
              release.handle(exchange);
            }
            return;
          }
          String far = Long.toString(System.nanoTime() + lasts.toNanos());
          Map<?, ?> deadline = Map.of("monotonic_ns", far, "boottime_ns", far);
          Map<?, ?> told = Map.of("event", "gained", "lock", "played", "token", "1", "fence", Map.of(), "deadline", deadline);
          // The stream stays open, until the client or the server ends it.
          exchange.sendResponseHeaders(200, 0);
          exchange.getResponseBody().write(("data: " + Json.write(told) + "\n\n").getBytes());
          exchange.getResponseBody().flush();
        });
    played.start();
    return played;
  }

  private static String address(HttpServer server) {
    return "127.0.0.1:" + server.getAddress().getPort();
  }

  private static void answers(HttpExchange exchange, int status, String body) throws IOException {
    exchange.sendResponseHeaders(status, 0);
    exchange.getResponseBody().write(body.getBytes());
  }

  private static void says() throws Exception {
    String[][] cases = {
      {"200", "{\"outcome\": \"released\"}", "released"},
      {"200", "{\"outcome\": \"ended_before\"}", "ended_before"},
      {"200", "{\"outcome\": \"unacknowledged\"}", "unacknowledged"},
      {"404", "{\"code\": \"no_such_claim\", \"error\": \"it is over\"}", "gone"},
      {null, null, "gone"},
    };
    for (String[] answer : cases) {
      List<String> outcomes = new CopyOnWriteArrayList<>();
      HttpServer played =
          played(
              LONG,
              exchange -> {
                outcomes.add(exchange.getRequestURI().getQuery());
                if (answer[0] != null) {
                  answers(exchange, Integer.parseInt(answer[0]), answer[1]);
                }
              });
      try (Agent agent = new Agent(new Agent.Settings(address(played), null, null, false))) {
        String said = agent.runOnce("java-said", lease(LONG).every(Duration.ofHours(1)), term -> {});
        check(said.equals(answer[2]) && outcomes.equals(List.of("outcome=done")), said + " " + outcomes);
      } finally {
        played.stop(0);
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
                try {
                  String link = Files.readSymbolicLink(file).toString();
                  if (link.startsWith("socket:") && Integer.parseInt(file.getFileName().toString()) > 2) {
                    sockets.add(link);
                  }
                } catch (NoSuchFileException closed) {
                  // It opens and closes files of its own meanwhile.
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
      // A heartbeat, one each quarter of the lease, would say so later than the stream does.
      leads(
          one,
          "java-ending",
          WITHIN.multipliedBy(5),
          term -> {
            first.process.destroy();
            check(!term.await(WITHIN), "its stream says that the agent ends");
          });
      leads(other, "java-ending", LONG, term -> {});
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
              check(!term.await(WITHIN), "its stream has ended");
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
      leads(agent, "java-interrupted", LONG, term -> {});
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
                  check(!term.await(WITHIN), "it is closed");
                  Thread.sleep(200);
                  steps.add("work");
                });
            return null;
          });
      begun.await();
      agent.close();
      steps.add("closed");
      check(steps.equals(List.of("work", "closed")), steps);
      leads(other, "java-close", LONG, term -> {});
      // Inside its own work it waits for no one.
      leads(other, "java-close", LONG, term -> other.close());
    }
  }

  private static void early() throws Exception {
    neverOpens();
    Claim.openMax = WITHIN;
    try (Started started = Started.at(ON_TCP); Agent other = started.agent();
        ServerSocket relay = new ServerSocket(0, 9, InetAddress.getLoopbackAddress());
        Agent agent = new Agent(new Agent.Settings("127.0.0.1:" + relay.getLocalPort(), null, null, false))) {
      CountDownLatch arrived = new CountDownLatch(1);
      CountDownLatch relayed = new CountDownLatch(1);
      OTHERS.submit(
          () -> {
            for (Socket client; (client = relay.accept()) != null; ) {
              Socket accepted = client;
              OTHERS.submit(() -> { relay(accepted, started.address, arrived, relayed); return null; });
            }
            return null;
          });
      Future<?> leading = OTHERS.submit(() -> { agent.lead("java-early", lease(LONG), term -> {}); return null; });
      check(arrived.await(WITHIN.toSeconds(), TimeUnit.SECONDS), "it asks");
      agent.close();
      leading.get(WITHIN.toSeconds(), TimeUnit.SECONDS);
      check(relayed.await(WITHIN.toSeconds(), TimeUnit.SECONDS), "its connection has ended");
      leads(other, "java-early", LONG, term -> {});
    }
  }

  /** Whoever lets go before the stream opens keeps no connection, by which it would contend on. */
  private static void neverOpens() throws Exception {
    try (ServerSocket played = new ServerSocket(0, 9, InetAddress.getLoopbackAddress());
        Agent agent = new Agent(new Agent.Settings("127.0.0.1:" + played.getLocalPort(), null, null, false))) {
      CountDownLatch asked = new CountDownLatch(1);
      CountDownLatch ended = new CountDownLatch(1);
      OTHERS.submit(
          () -> {
            for (Socket accepted; (accepted = played.accept()) != null; ) {
              Socket client = accepted;
              OTHERS.submit(
                  () -> {
                    try (client) {
                      byte[] bytes = new byte[8192];
                      int length = client.getInputStream().read(bytes);
                      if (new String(bytes, 0, length).contains("/v1/lead")) {
                        asked.countDown();
                        while (client.getInputStream().read(bytes) >= 0) {}
                        ended.countDown();
                      }
                    }
                    return null;
                  });
            }
            return null;
          });
      Future<?> leading = OTHERS.submit(() -> { agent.lead("java-never", lease(LONG), term -> {}); return null; });
      check(asked.await(WITHIN.toSeconds(), TimeUnit.SECONDS), "it asks");
      agent.close();
      leading.get(WITHIN.toSeconds(), TimeUnit.SECONDS);
      check(ended.await(WITHIN.toSeconds(), TimeUnit.SECONDS), "its connection has ended");
    }
  }

  /** Passes a request to lead on late, and keeps its connection for a while. */
  private static void relay(Socket client, String address, CountDownLatch arrived, CountDownLatch relayed)
      throws Exception {
    String[] place = address.split(":");
    try (client; Socket agent = new Socket(place[0], Integer.parseInt(place[1]))) {
      byte[] bytes = new byte[8192];
      int length = client.getInputStream().read(bytes);
      boolean isLead = new String(bytes, 0, length).contains("/v1/lead");
      if (isLead) {
        arrived.countDown();
      }
      Thread.sleep(isLead ? 300 : 50);
      length += client.getInputStream().available() > 0 ? client.getInputStream().read(bytes, length, 8192 - length) : 0;
      agent.getOutputStream().write(bytes, 0, length);
      OTHERS.submit(
          () -> {
            agent.getInputStream().transferTo(client.getOutputStream());
            client.shutdownOutput(); // it reads an answer to its end
            return null;
          });
      while (client.getInputStream().read(bytes) >= 0) {}
      Thread.sleep(500);
      if (isLead) {
        relayed.countDown();
      }
    }
  }

  /** A service that leads until it is told to end; its work never stops, or closes the agent, where that is said. */
  private static void serves(String kind) throws Exception {
    try (Agent agent = new Agent()) {
      Duration lease = kind.equals("stops") ? LONG : SHORT;
      agent.lead(
          "java-" + kind,
          lease(lease),
          term -> {
            System.out.println("leads");
            if (kind.equals("closes")) {
              agent.close();
              return;
            }
            while (term.await(LONG)) {}
            Thread.sleep(kind.equals("stops") ? 0 : Long.MAX_VALUE);
          });
    }
  }

  private static Process service(String kind, String address) throws IOException {
    String path = System.getProperty("java.class.path");
    ProcessBuilder service = new ProcessBuilder("java", "-Xshare:auto", "-cp", path, PackageTest.class.getName(), kind);
    service.environment().put("SPINDLE_AGENT", address);
    return service.redirectError(ProcessBuilder.Redirect.INHERIT).start();
  }

  private static void sigterm() throws Exception {
    try (Started started = Started.at(ON_TCP); Agent agent = started.agent()) {
      for (String kind : List.of("stops", "goes-on")) {
        Process process = service(kind, started.address);
        try {
          check(firstLine(process).equals("leads"), "it leads");
          process.destroy();
          check(process.waitFor(WITHIN.toSeconds(), TimeUnit.SECONDS) && process.exitValue() == 143, "it ends");
        } finally {
          process.destroyForcibly();
        }
        // A contender waits for a lease of its own, too.
        leads(agent, "java-" + kind, kind.equals("stops") ? LONG : SHORT, term -> {});
      }
    }
  }

  /** The release begins after the deadline, for which alone work is waited for, or after its work has closed. */
  private static void awaitsRelease() throws Exception {
    for (String kind : List.of("stops", "closes")) {
      CompletableFuture<Process> service = new CompletableFuture<>();
      AtomicBoolean isAnswered = new AtomicBoolean();
      HttpServer played =
          played(
              kind.equals("closes") ? LONG : Duration.ofMillis(500),
              exchange -> {
                service.join().destroy();
                try {
                  Thread.sleep(1000);
                } catch (InterruptedException over) {
                  // Nobody interrupts it.
                }
                isAnswered.set(true);
                answers(exchange, 200, "{\"outcome\": \"released\"}");
              });
      try {
        Process process = service(kind, address(played));
        service.complete(process);
        try {
          check(process.waitFor(WITHIN.toSeconds(), TimeUnit.SECONDS), "it ends");
          check(isAnswered.get(), kind + ": it waited for the answer");
        } finally {
          process.destroyForcibly();
        }
      } finally {
        played.stop(0);
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
    String wrong = "localhost agent.sock run/agent.sock:1 http://localhost:1 localhost: :1 a:0 a:65536 ::1:1 [::1]";
    for (String address : (wrong + " a_b:9465 a%zz:1").split(" ")) {
      try {
        throw new AssertionError(new Agent(new Agent.Settings(address, null, null, false)));
      } catch (IllegalArgumentException refused) {
        String text = "address " + address + ": expected HOST:PORT, or the path of a socket";
        check(refused.getMessage().equals(text), refused);
      }
    }
    for (String address : List.of("localhost:80", "127.0.0.1:9465", "[::1]:9465", "/run/spindle/agent.sock")) {
      new Agent(new Agent.Settings(address, null, null, false)).close();
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
