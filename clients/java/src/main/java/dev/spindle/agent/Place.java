package dev.spindle.agent;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardProtocolFamily;
import java.net.URI;
import java.net.URISyntaxException;
import java.net.UnixDomainSocketAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Stream;

/** The agent's address and its secret, which is read anew for each request. */
final class Place {
  /** The agent sends a comment each 15 s. */
  static final Duration SILENCE_MAX = Duration.ofSeconds(45);

  static final Duration ANSWER_MAX = Duration.ofSeconds(30);

  /** Ends what is late. */
  static final ScheduledThreadPoolExecutor TIMER = new ScheduledThreadPoolExecutor(1, Place::daemon);

  static {
    TIMER.setRemoveOnCancelPolicy(true);
  }

  private final String address;

  /** Null for a socket. */
  private final URI uri;

  private final String token;
  private final Path tokenFile;

  Place(Agent.Settings settings) {
    this(settings, System.getenv());
  }

  Place(Agent.Settings settings, Map<String, String> said) {
    address = or(settings.address(), said.get("SPINDLE_AGENT"), "127.0.0.1:9465");
    uri = address.startsWith("/") ? null : uri(address);
    String given = or(settings.token());
    String file = given == null ? or(said.get("SPINDLE_AGENT_TOKEN_FILE")) : null;
    tokenFile = settings.tokenFile() == null && file != null ? Path.of(file) : settings.tokenFile();
    token = or(given, said.get("SPINDLE_AGENT_TOKEN"));
  }

  private static URI uri(String address) {
    try {
      URI uri = new URI("http://" + address);
      boolean isAll = address.equals(uri.getRawAuthority()) && uri.getRawUserInfo() == null;
      if (isAll && uri.getHost() != null && uri.getPort() > 0 && uri.getPort() < 65_536) {
        return uri;
      }
    } catch (URISyntaxException wrong) {
      // As below.
    }
    throw new IllegalArgumentException("address " + address + ": expected HOST:PORT, or the path of a socket");
  }

  static Thread daemon(Runnable work) {
    Thread thread = new Thread(work, "spindle-agent");
    thread.setDaemon(true);
    return thread;
  }

  /** Returns the first that says something; null where none does. */
  private static String or(String... texts) {
    return Stream.of(texts).filter(text -> text != null && !text.isEmpty()).findFirst().orElse(null);
  }

  /** An answer that is read. A reader that waits longer than the limit is ended. */
  static final class Answer implements Closeable {
    private final SocketChannel channel;
    private final BufferedReader reader;
    private final Duration limit;
    private ScheduledFuture<?> late;
    private volatile boolean isLate;

    private Answer(SocketAddress at, Duration limit) throws IOException {
      boolean isPath = at instanceof UnixDomainSocketAddress;
      this.channel = isPath ? SocketChannel.open(StandardProtocolFamily.UNIX) : SocketChannel.open();
      this.reader = new BufferedReader(new InputStreamReader(Channels.newInputStream(channel), UTF_8));
      this.limit = limit;
    }

    /** Returns the next line; null at the end. */
    String line() throws IOException {
      return limited(reader::readLine);
    }

    private interface Step<T> {
      T run() throws IOException;
    }

    private <T> T limited(Step<T> step) throws IOException {
      Runnable ends =
          () -> {
            isLate = true;
            close();
          };
      late = TIMER.schedule(ends, limit.toMillis(), TimeUnit.MILLISECONDS);
      try {
        return step.run();
      } catch (ClosedChannelException closed) {
        throw new IOException(isLate ? "the agent was silent for " + limit : "the connection was closed", closed);
      } finally {
        late.cancel(false);
      }
    }

    private void send(SocketAddress at, byte[] request) throws IOException {
      limited(
          () -> {
            channel.connect(at);
            // In one piece: who refuses it by its head may close before the rest comes.
            for (ByteBuffer left = ByteBuffer.wrap(request); left.hasRemaining(); ) {
              channel.write(left);
            }
            return null;
          });
    }

    /** Ends a reader, too, that waits in another thread. */
    @Override
    public void close() {
      try {
        channel.close();
      } catch (IOException gone) {
        // It is closed all the same.
      }
    }
  }

  private SocketAddress place() throws IOException {
    if (uri == null) {
      return UnixDomainSocketAddress.of(address);
    }
    InetSocketAddress at = new InetSocketAddress(uri.getHost().replaceAll("[\\[\\]]", ""), uri.getPort());
    if (at.isUnresolved()) {
      throw new UnknownHostException(uri.getHost());
    }
    return at;
  }

  /** Returns the secret; null where nobody names one. */
  String secret() throws IOException {
    return tokenFile == null ? token : Files.readString(tokenFile).strip();
  }

  /** Sends a request. Its answer is yet to be read, unless it is a refusal. Whoever has begun may close it. */
  Answer open(String method, String path, Map<String, ?> body, Duration limit, Consumer<Answer> begun)
      throws IOException {
    String secret = secret();
    String content = Json.write(body);
    String host = address.startsWith("/") ? "localhost" : address;
    // So the answer ends with its connection, and comes in no chunks.
    String head =
        method + " " + path + " HTTP/1.0\r\nHost: " + host + "\r\nContent-Type: application/json\r\nContent-Length: "
            + content.getBytes(UTF_8).length + (secret == null ? "" : "\r\nAuthorization: Bearer " + secret) + "\r\n\r\n";
    SocketAddress at = place();
    Answer answer = new Answer(at, limit);
    try {
      begun.accept(answer);
      answer.send(at, (head + content).getBytes(UTF_8));
      status(answer);
      return answer;
    } catch (IOException | RuntimeException error) {
      answer.close();
      throw error;
    }
  }

  private static void status(Answer answer) throws IOException {
    String first = answer.line();
    String[] words = first == null ? new String[0] : first.split(" ");
    if (words.length < 2) {
      throw new IOException("the agent gave no answer");
    }
    for (String line = first; line != null && !line.isEmpty(); ) {
      line = answer.line();
    }
    if (!words[1].equals("200")) {
      throw AgentException.of(Integer.parseInt(words[1]), text(answer));
    }
  }

  private static String text(Answer answer) throws IOException {
    StringBuilder text = new StringBuilder();
    for (String line = answer.line(); line != null; line = answer.line()) {
      text.append(line).append('\n');
    }
    return text.toString();
  }

  /** Sends a request, and returns what its answer says. */
  Map<?, ?> ask(String method, String path, Map<String, ?> body, Duration limit, Consumer<Answer> begun)
      throws IOException {
    try (Answer answer = open(method, path, body, limit, begun)) {
      return Json.object(text(answer));
    }
  }
}
