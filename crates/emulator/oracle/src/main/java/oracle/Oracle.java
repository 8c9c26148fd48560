package oracle;

import com.google.common.collect.ImmutableList;
import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import com.google.zetasql.Analyzer;
import com.google.zetasql.AnalyzerOptions;
import com.google.zetasql.LanguageOptions;
import com.google.zetasql.PreparedQuery;
import com.google.zetasql.SimpleCatalog;
import com.google.zetasql.SimpleColumn;
import com.google.zetasql.SimpleTable;
import com.google.zetasql.TableContent;
import com.google.zetasql.Type;
import com.google.zetasql.TypeFactory;
import com.google.zetasql.Value;
import com.google.zetasql.ZetaSQLBuiltinFunctionOptions;
import com.google.zetasql.ZetaSQLOptions.LanguageFeature;
import com.google.zetasql.ZetaSQLOptions.ProductMode;
import com.google.zetasql.ZetaSQLResolvedNodeKind.ResolvedNodeKind;
import com.google.zetasql.ZetaSQLType.TypeKind;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Answers statements as Google's reference implementation of GoogleSQL does.
 *
 * <p>Each line of the input is a JSON object. {@code {"table", "columns": [[name, type]], "key": [name], "rows": [select
 * list]}} makes a table whose rows are GoogleSQL expressions, and {@code {"parameter", "type", "value"}} a parameter. {@code {"sql"}} is answered with one line:
 * {@code {"columns": [[name, type]], "rows": [[value]]}}, {@code {"accepted": true}} for a statement that is analyzed only,
 * or {@code {"error", "message"}}, where the error is {@code "analysis"} or {@code "evaluation"}.
 */
public final class Oracle {
  private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().serializeNulls().create();

  private final SimpleCatalog catalog = new SimpleCatalog("oracle");
  private final Map<String, TableContent> contents = new HashMap<>();
  private final AnalyzerOptions options = options();
  private final Map<String, Value> parameters = new HashMap<>();

  private Oracle() {
    catalog.addZetaSQLFunctionsAndTypes(new ZetaSQLBuiltinFunctionOptions(options.getLanguageOptions()));
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    // Whatever a library prints must not be taken for an answer.
    System.setOut(System.err);
    Oracle oracle = new Oracle();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonObject request = GSON.fromJson(line, JsonObject.class);
      if (request.has("table")) {
        oracle.addTable(request);
      } else if (request.has("parameter")) {
        oracle.addParameter(request);
      } else {
        out.println(GSON.toJson(oracle.answer(request)));
      }
    }
  }

  /** What Google's own emulator of Spanner analyzes statements with. */
  private static AnalyzerOptions options() {
    LanguageOptions language = new LanguageOptions();
    language.setProductMode(ProductMode.PRODUCT_EXTERNAL);
    language.setEnabledLanguageFeatures(
        Set.of(
            LanguageFeature.FEATURE_EXTENDED_TYPES,
            LanguageFeature.FEATURE_FUNCTION_ARGUMENTS_WITH_DEFAULTS,
            LanguageFeature.FEATURE_NAMED_ARGUMENTS,
            LanguageFeature.FEATURE_NUMERIC_TYPE,
            LanguageFeature.FEATURE_TABLESAMPLE,
            LanguageFeature.FEATURE_TIMESTAMP_NANOS,
            LanguageFeature.FEATURE_HAVING_IN_AGGREGATE,
            LanguageFeature.FEATURE_NULL_HANDLING_MODIFIER_IN_AGGREGATE,
            LanguageFeature.FEATURE_ORDER_BY_IN_AGGREGATE,
            LanguageFeature.FEATURE_LIMIT_IN_AGGREGATE,
            LanguageFeature.FEATURE_ORDER_BY_COLLATE,
            LanguageFeature.FEATURE_SELECT_STAR_EXCEPT_REPLACE,
            LanguageFeature.FEATURE_SAFE_FUNCTION_CALL,
            LanguageFeature.FEATURE_JSON_KEYS_FUNCTION,
            LanguageFeature.FEATURE_JSON_TYPE,
            LanguageFeature.FEATURE_JSON_ARRAY_FUNCTIONS,
            LanguageFeature.FEATURE_JSON_CONSTRUCTOR_FUNCTIONS,
            LanguageFeature.FEATURE_JSON_CONTAINS_FUNCTION,
            LanguageFeature.FEATURE_JSON_MUTATOR_FUNCTIONS,
            LanguageFeature.FEATURE_JSON_STRICT_NUMBER_PARSING,
            LanguageFeature.FEATURE_JSON_VALUE_EXTRACTION_FUNCTIONS,
            LanguageFeature.FEATURE_JSON_LAX_VALUE_EXTRACTION_FUNCTIONS,
            LanguageFeature.FEATURE_DML_RETURNING,
            LanguageFeature.FEATURE_WITH_EXPRESSION,
            LanguageFeature.FEATURE_TABLE_VALUED_FUNCTIONS,
            LanguageFeature.FEATURE_ADDITIONAL_STRING_FUNCTIONS,
            LanguageFeature.FEATURE_SEQUENCE_ARG,
            LanguageFeature.FEATURE_JSON_ARRAY_VALUE_EXTRACTION_FUNCTIONS,
            LanguageFeature.FEATURE_JSON_MORE_VALUE_EXTRACTION_FUNCTIONS,
            LanguageFeature.FEATURE_ENABLE_FLOAT_DISTANCE_FUNCTIONS,
            LanguageFeature.FEATURE_DOT_PRODUCT,
            LanguageFeature.FEATURE_INTERVAL_TYPE,
            LanguageFeature.FEATURE_UUID_TYPE,
            LanguageFeature.FEATURE_FOR_UPDATE,
            LanguageFeature.FEATURE_INLINE_LAMBDA_ARGUMENT));
    language.setSupportedStatementKinds(
        Set.of(
            ResolvedNodeKind.RESOLVED_QUERY_STMT,
            ResolvedNodeKind.RESOLVED_INSERT_STMT,
            ResolvedNodeKind.RESOLVED_UPDATE_STMT,
            ResolvedNodeKind.RESOLVED_DELETE_STMT));
    AnalyzerOptions options = new AnalyzerOptions();
    options.setLanguageOptions(language);
    options.setDefaultTimezone("America/Los_Angeles");
    return options;
  }

  private void addTable(JsonObject request) {
    String name = request.get("table").getAsString();
    List<SimpleColumn> columns = new ArrayList<>();
    List<Type> types = new ArrayList<>();
    List<String> names = new ArrayList<>();
    for (JsonElement column : request.getAsJsonArray("columns")) {
      JsonArray pair = column.getAsJsonArray();
      Type type = type(pair.get(1).getAsString());
      types.add(type);
      names.add(pair.get(0).getAsString());
      columns.add(new SimpleColumn(name, pair.get(0).getAsString(), type, false, true));
    }
    List<List<Value>> rows = new ArrayList<>();
    for (JsonElement row : request.getAsJsonArray("rows")) {
      rows.add(values(row.getAsString()));
    }
    SimpleTable table = new SimpleTable(name, columns);
    List<Integer> key = new ArrayList<>();
    for (JsonElement part : request.getAsJsonArray("key")) {
      key.add(names.indexOf(part.getAsString()));
    }
    table.setPrimaryKey(key);
    catalog.addSimpleTable(table);
    contents.put(name, TableContent.create(rows));
  }

  private void addParameter(JsonObject request) {
    String name = request.get("parameter").getAsString();
    String type = request.get("type").getAsString();
    parameters.put(name, values("CAST(" + request.get("value").getAsString() + " AS " + type + ")").get(0));
    options.addQueryParameter(name, type(type));
  }

  private List<Value> values(String selectList) {
    try (PreparedQuery query =
        PreparedQuery.builder()
            .setSql("SELECT " + selectList)
            .setAnalyzerOptions(options)
            .setCatalog(catalog)
            .prepare()) {
      return query.execute(given(query)).getTableData().get(0);
    }
  }

  /** The parameters that a query names. */
  private Map<String, Value> given(PreparedQuery query) {
    Map<String, Value> given = new HashMap<>();
    query.getReferencedParameters().forEach(name -> given.put(name, parameters.get(name.toLowerCase())));
    return given;
  }

  private static Type type(String name) {
    if (name.startsWith("ARRAY<")) {
      return TypeFactory.createArrayType(type(name.substring(6, name.length() - 1)));
    }
    TypeKind kind =
        switch (name) {
          case "BOOL" -> TypeKind.TYPE_BOOL;
          case "INT64" -> TypeKind.TYPE_INT64;
          case "FLOAT64" -> TypeKind.TYPE_DOUBLE;
          case "NUMERIC" -> TypeKind.TYPE_NUMERIC;
          case "STRING" -> TypeKind.TYPE_STRING;
          case "BYTES" -> TypeKind.TYPE_BYTES;
          case "DATE" -> TypeKind.TYPE_DATE;
          case "TIMESTAMP" -> TypeKind.TYPE_TIMESTAMP;
          case "JSON" -> TypeKind.TYPE_JSON;
          default -> throw new IllegalArgumentException("unknown type " + name);
        };
    return TypeFactory.createSimpleType(kind);
  }

  private JsonObject answer(JsonObject request) {
    String sql = request.get("sql").getAsString();
    if (request.has("analyze")) {
      try {
        Analyzer.analyzeStatement(sql, options, catalog);
        JsonObject answer = new JsonObject();
        answer.addProperty("accepted", true);
        return answer;
      } catch (RuntimeException error) {
        return failure("analysis", error);
      }
    }
    PreparedQuery query;
    try {
      query =
          PreparedQuery.builder()
              .setSql(sql)
              .setAnalyzerOptions(options)
              .setCatalog(catalog)
              .setTablesContents(contents)
              .prepare();
    } catch (RuntimeException error) {
      return failure("analysis", error);
    }
    try (query) {
      JsonObject answer = new JsonObject();
      JsonArray columns = new JsonArray();
      for (SimpleColumn column : query.getColumns()) {
        JsonArray pair = new JsonArray();
        String name = column.getName();
        // Columns without a name get one that is no name.
        pair.add(name.startsWith("$") ? "" : name);
        pair.add(column.getType().typeName(ProductMode.PRODUCT_EXTERNAL));
        columns.add(pair);
      }
      answer.add("columns", columns);
      JsonArray rows = new JsonArray();
      for (ImmutableList<Value> row : query.execute(given(query)).getTableData()) {
        JsonArray cells = new JsonArray();
        row.forEach(value -> cells.add(json(value)));
        rows.add(cells);
      }
      answer.add("rows", rows);
      return answer;
    } catch (RuntimeException error) {
      return failure("evaluation", error);
    }
  }

  private static JsonObject failure(String when, RuntimeException error) {
    JsonObject answer = new JsonObject();
    answer.addProperty("error", when);
    answer.addProperty("message", String.valueOf(error.getMessage()));
    return answer;
  }

  /** A value as Spanner sends it, but for timestamps, which are nanoseconds, and bytes, which are digits. */
  private static JsonElement json(Value value) {
    if (value.isNull()) {
      return JsonNull.INSTANCE;
    }
    Type type = value.getType();
    if (type.isArray()) {
      JsonArray array = new JsonArray();
      value.getElementList().forEach(element -> array.add(json(element)));
      return array;
    }
    return switch (type.getKind()) {
      case TYPE_BOOL -> new JsonPrimitive(value.getBoolValue());
      case TYPE_INT64 -> new JsonPrimitive(Long.toString(value.getInt64Value()));
      case TYPE_DOUBLE -> new JsonPrimitive(bits(value.getDoubleValue()));
      case TYPE_NUMERIC -> new JsonPrimitive(value.getNumericValue().stripTrailingZeros().toPlainString());
      case TYPE_STRING -> new JsonPrimitive(value.getStringValueBytes().toStringUtf8());
      case TYPE_BYTES -> new JsonPrimitive(hex(value.getBytesValue().toByteArray()));
      case TYPE_DATE -> new JsonPrimitive(value.getLocalDateValue().toString());
      case TYPE_TIMESTAMP -> timestamp(value);
      case TYPE_JSON -> new JsonPrimitive(value.getJsonValue());
      default -> new JsonPrimitive("unknown type " + type);
    };
  }

  private static JsonElement timestamp(Value value) {
    var proto = value.getProto().getTimestampValue();
    return new JsonPrimitive(proto.getSeconds() + "." + String.format("%09d", proto.getNanos()));
  }

  /** Every NaN is the same, and so are both zeros: the wire doesn't tell them apart either. */
  private static String bits(double value) {
    return value == 0 ? "0" : Long.toHexString(Double.doubleToLongBits(value));
  }

  private static String hex(byte[] bytes) {
    StringBuilder hex = new StringBuilder();
    for (byte next : bytes) {
      hex.append(String.format("%02x", next));
    }
    return hex.toString();
  }
}
