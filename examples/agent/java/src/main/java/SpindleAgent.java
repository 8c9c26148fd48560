import com.google.cloud.Timestamp;
import com.google.cloud.spanner.ResultSet;
import com.google.cloud.spanner.Statement;
import com.google.cloud.spanner.TransactionContext;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.stream.Stream;

/** Contends for a lock through `spindle agent` for good, in two threads: a file to copy. */
final class SpindleAgent {
  private static final String FENCE =
      "SELECT 1 FROM locktable WHERE name = @lock AND token = @timestamp AND writer = @writer";

  private final HttpClient client = HttpClient.newHttpClient();
  private final String agent;
  private final String lock;
  private final String id;
  private volatile Term held;
  private volatile String claim;

  /** Another program leads, or nobody. */
  static final class Fenced extends RuntimeException {
    Fenced(Term term) {
      super("token " + term.token + " is superseded");
    }
  }

  /** One hold on the lock, until the deadline. */
  record Term(long token, JsonObject fence, long deadline) {
    /** Fails unless the term is still the lock's; the transaction commits before the next one begins, or not at all. */
    void check(TransactionContext transaction) {
      Statement statement =
          Statement.newBuilder(FENCE)
              .bind("lock").to(fence.get("lock").getAsString())
              .bind("timestamp").to(Timestamp.parseTimestamp(fence.get("timestamp").getAsString()))
              .bind("writer").to(fence.get("writer").getAsString())
              .build();
      try (ResultSet found = transaction.executeQuery(statement)) {
        if (!found.next()) {
          throw new Fenced(this);
        }
      }
    }
  }

  SpindleAgent(String agent, String lock, String id) {
    this.agent = "http://" + agent;
    this.lock = lock;
    this.id = id;
    repeat(this::follow, 200);
    repeat(this::beat, 500);
  }

  /** Returns the term that is held now, or null. On Linux this clock is CLOCK_MONOTONIC, which the agent checks. */
  Term term() {
    Term term = held;
    return term != null && System.nanoTime() < term.deadline ? term : null;
  }

  private interface Work {
    void run() throws IOException, InterruptedException;
  }

  private static void repeat(Work work, long pauseMillis) {
    Thread thread =
        new Thread(
            () -> {
              while (true) {
                try {
                  work.run();
                } catch (Exception error) {
                  System.err.println("agent: " + error);
                }
                try {
                  Thread.sleep(pauseMillis);
                } catch (InterruptedException ended) {
                  return;
                }
              }
            });
    thread.setDaemon(true);
    thread.start();
  }

  private void follow() throws IOException, InterruptedException {
    JsonObject wanted = new JsonObject();
    wanted.add("locks", JsonParser.parseString("[\"" + lock + "\"]"));
    wanted.addProperty("id", id);
    wanted.addProperty("lease", "4s");
    wanted.addProperty("heartbeat_timeout", "2s");
    JsonObject clock = new JsonObject();
    clock.addProperty("monotonic_ns", Long.toString(System.nanoTime()));
    wanted.add("clock", clock);
    String[] event = {""};
    try (Stream<String> lines = ask("/v1/lead", wanted)) {
      lines.forEach(
          line -> {
            if (line.startsWith("event: ")) {
              event[0] = line.substring(7);
            } else if (line.startsWith("data: ")) {
              told(event[0], JsonParser.parseString(line.substring(6)).getAsJsonObject());
            }
          });
    } finally {
      // However the stream ends, nothing is held until a new one says so.
      held = null;
      claim = null;
    }
  }

  private void told(String event, JsonObject data) {
    switch (event) {
      case "waiting" -> claim = data.get("claim").getAsString();
      case "gained" -> held = new Term(data.get("token").getAsLong(), data.getAsJsonObject("fence"), deadline(data));
      case "renewed" -> held = new Term(held.token, held.fence, deadline(data));
      default -> held = null;
    }
  }

  private static long deadline(JsonObject data) {
    return data.getAsJsonObject("deadline").get("monotonic_ns").getAsLong();
  }

  private void beat() throws IOException, InterruptedException {
    // The agent can't tell a stopped process by its connection.
    String mine = claim;
    if (mine != null) {
      ask("/v1/claims/" + mine + "/heartbeat", new JsonObject()).forEach(line -> {});
    }
  }

  private Stream<String> ask(String path, JsonObject body) throws IOException, InterruptedException {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(agent + path))
            .version(HttpClient.Version.HTTP_1_1)
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(body.toString()))
            .build();
    HttpResponse<Stream<String>> answer = client.send(request, BodyHandlers.ofLines());
    if (answer.statusCode() != 200) {
      throw new IOException(answer.statusCode() + " " + String.join(" ", answer.body().toList()));
    }
    return answer.body();
  }
}
