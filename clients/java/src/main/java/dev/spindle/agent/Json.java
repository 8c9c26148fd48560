package dev.spindle.agent;

import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** JSON as maps, lists, text, numbers and booleans: the JDK has none. */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  static Map<?, ?> object(String text) throws IOException {
    try {
      Json json = new Json(text);
      if (json.value() instanceof Map<?, ?> map && json.next() == 0) {
        return map;
      }
    } catch (IndexOutOfBoundsException | NumberFormatException cut) {
      // As below.
    }
    throw new IOException("no object of JSON: " + text);
  }

  static String write(Object value) {
    if (value instanceof Map<?, ?> map) {
      return map.entrySet().stream()
          .map(entry -> write(entry.getKey()) + ":" + write(entry.getValue()))
          .collect(Collectors.joining(",", "{", "}"));
    } else if (value instanceof List<?> list) {
      return list.stream().map(Json::write).collect(Collectors.joining(",", "[", "]"));
    } else if (!(value instanceof CharSequence text)) {
      return String.valueOf(value);
    } else {
      StringBuilder quoted = new StringBuilder("\"");
      text.chars()
          .forEach(
              unit -> {
                boolean isPlain = unit >= ' ' && unit != '"' && unit != '\\';
                quoted.append(isPlain ? (char) unit + "" : String.format("\\u%04x", unit));
              });
      return quoted.append('"').toString();
    }
  }

  /** The next character that is no space; 0 at the end. */
  private char next() {
    while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
      at++;
    }
    return at < text.length() ? text.charAt(at) : 0;
  }

  private void expect(char wanted) throws IOException {
    if (next() != wanted) {
      throw new IOException("expected `" + wanted + "` at " + at + " of " + text);
    }
    at++;
  }

  private Object value() throws IOException {
    switch (next()) {
      case '{':
        Map<String, Object> map = new LinkedHashMap<>();
        for (at++; next() != '}'; ) {
          String name = quoted();
          expect(':');
          map.put(name, value());
          comma('}');
        }
        at++;
        return map;
      case '[':
        List<Object> list = new ArrayList<>();
        for (at++; next() != ']'; ) {
          list.add(value());
          comma(']');
        }
        at++;
        return list;
      case '"':
        return quoted();
      default:
        int begin = at;
        while (at < text.length() && ",]} \n".indexOf(text.charAt(at)) < 0) {
          at++;
        }
        return word(text.substring(begin, at));
    }
  }

  private void comma(char end) throws IOException {
    if (next() != end) {
      expect(',');
    }
  }

  private static Object word(String word) {
    return switch (word) {
      case "null" -> null;
      case "true", "false" -> Boolean.valueOf(word);
      default -> Double.valueOf(word);
    };
  }

  private String quoted() throws IOException {
    expect('"');
    StringBuilder unquoted = new StringBuilder();
    while (text.charAt(at) != '"') {
      char unit = text.charAt(at++);
      unquoted.append(unit == '\\' ? escaped() : unit);
    }
    at++;
    return unquoted.toString();
  }

  private char escaped() {
    char kind = text.charAt(at++);
    if (kind != 'u') {
      int known = "bfnrt".indexOf(kind);
      return known < 0 ? kind : "\b\f\n\r\t".charAt(known);
    }
    at += 4;
    return (char) Integer.parseInt(text.substring(at - 4, at), 16);
  }
}
