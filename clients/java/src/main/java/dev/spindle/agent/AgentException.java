package dev.spindle.agent;

import java.io.IOException;
import java.util.Map;
import java.util.Set;

/** The agent refused: the code is one of those of docs/agent.yaml. */
public final class AgentException extends IOException {
  private static final Set<String> FINAL =
      Set.of("bad_request", "no_such_path", "no_such_method", "not_json", "foreign_host");

  private final int status;
  private final String code;

  private AgentException(int status, String code, String text) {
    super(status + " " + code + ": " + text);
    this.status = status;
    this.code = code;
  }

  static AgentException of(int status, String text) {
    try {
      Map<?, ?> told = Json.object(text);
      return new AgentException(status, String.valueOf(told.get("code")), String.valueOf(told.get("error")));
    } catch (IOException other) {
      return new AgentException(status, "unknown", text);
    }
  }

  public int status() {
    return status;
  }

  public String code() {
    return code;
  }

  /** True if no repetition cures it. */
  public boolean isFinal() {
    return FINAL.contains(code);
  }
}
