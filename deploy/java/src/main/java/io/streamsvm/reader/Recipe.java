// What a version's recipe makes of raw events: the part `recipe` of a message.
package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.*;
import java.time.temporal.ValueRange;
import java.util.*;
import java.util.function.*;
import java.util.regex.*;
import java.util.stream.Stream;

/** Makes the columns of raw events. Thread-safe: nothing of it changes once it is made. */
final class Recipe {
    static final long MICROS = 1_000_000, DAY = 86_400, FIRST = -62_135_596_800L, END = 253_402_300_800L;
    static final ValueRange YEARS = ValueRange.of(FIRST, END - 1); // 1 to 9999, in seconds
    /** What Debezium writes for a column that an update of its row did not bring along: a missing value. */
    static final String UNAVAILABLE = "__debezium_unavailable_value", BEYOND = ", beyond what can be learned";
    static final String SPACE = "[ \\t\u00a0\u2009\u202f]*", SIGN = "[+\\-\u2212]";
    static final long LARGEST_EXACT = (1L << 53) - 1;
    /** Most bits of a hash, as in Python; and most columns: a message may name any number, and each is made for an event. */
    static final int MOST_BITS = 10, MOST_COLUMNS = 1 << 20;
    static final Pattern ISO = Pattern.compile("((?!0000)\\d{4}-\\d\\d-\\d\\d)(?:[T ]((?:[01]\\d|2[0-3]):[0-5]\\d(?::[0-5]\\d(?:[.,]\\d{1,9})?)?)"
        + "(?:(Z)|([+-])([01]\\d|2[0-3]):?([0-5]\\d))?)?");

    /** Makes the columns of one feature, of an event and of the columns of the features before it. */
    interface Part { double[] of(JsonNode event, Map<String, double[]> before); }

    /** How many columns a feature has, and what makes them of the values of its fields. */
    record Kind(int width, Function<List<JsonNode>, double[]> of) {}

    /** What a feature needs a value for. */
    private static final Map<String, String> WANTED = Map.of("number", "a number", "flag", "true or false",
        "category", "text, an integer or a boolean", "hash", "text, an integer or a boolean", "time", "a time such as 2026-01-31T12:00:00Z");

    private static final Map<JsonNodeType, String> NAMES = Map.of(JsonNodeType.OBJECT, "an object", JsonNodeType.ARRAY, "an array",
        JsonNodeType.STRING, "text", JsonNodeType.BOOLEAN, "a boolean", JsonNodeType.NUMBER, "a number");

    private final Map<String, Part> parts = new LinkedHashMap<>();
    /** The field of each column, or both fields of a cross. */
    final List<String> fields = new ArrayList<>();
    private final Map<List<String>, Boolean> needed = new LinkedHashMap<>();

    Recipe(JsonNode recipe) {
        Map<String, String> named = new HashMap<>();
        Map<String, Integer> widths = new HashMap<>();
        for (JsonNode feature : recipe.get("features")) {
            String name = feature.get("name").asText(), as = feature.get("as").asText();
            if (as.equals("cross")) {
                String first = feature.get("of").get(0).asText(), second = feature.get("of").get(1).asText();
                named.put(name, named.get(first) + " x " + named.get(second));
                widths.put(name, Math.multiplyExact(widths.get(first), widths.get(second)));
                parts.put(name, (event, before) ->
                    Arrays.stream(before.get(first)).flatMap(x -> Arrays.stream(before.get(second)).map(z -> x * z)).toArray());
            } else {
                Kind kind = kind(feature, recipe.path("zones"));
                JsonNode missing = feature.path("missing");
                boolean indicates = missing.asText().equals("indicator"), required = !indicates && !missing.has("constant");
                List<JsonNode> paths = Stream.of("field", "since").filter(feature::hasNonNull).map(feature::get).toList();
                named.put(name, shown(feature.get("field")));
                widths.put(name, kind.width + (indicates ? 1 : 0));
                parts.put(name, ofFields(paths, missing, kind, widths.get(name)));
                for (JsonNode path : paths) needed.merge(List.of(shown(path), as), required, Boolean::logicalOr);
            }
            Message.must(fields.size() + (long) widths.get(name) <= MOST_COLUMNS, "the part 'recipe' makes more than " + MOST_COLUMNS + " columns");
            fields.addAll(Collections.nCopies(widths.get(name), named.get(name)));
        }
    }

    /** Return the fields that an event is read for. */
    List<Model.Field> needed() {
        return needed.entrySet().stream().map(one -> new Model.Field(one.getKey().get(0), one.getKey().get(1), one.getValue())).toList();
    }

    /** Return the columns of an event; InvalidFeatures says why the recipe rejects it. */
    double[] columns(JsonNode event) {
        Map<String, double[]> made = new LinkedHashMap<>();
        parts.forEach((name, part) -> made.put(name, part.of(event, made)));
        return made.values().stream().flatMapToDouble(Arrays::stream).toArray();
    }

    /** Return a path as text: card.country, items[0].price. */
    static String shown(Iterable<JsonNode> path) {
        StringBuilder text = new StringBuilder();
        for (JsonNode step : path) text.append(step.isInt() ? "[" + step.asInt() + "]" : "." + step.asText());
        return text.length() > 0 && text.charAt(0) == '.' ? text.substring(1) : text.toString();
    }

    /** Return the recipe of a message, which makes of the message's examples the columns that they should have; or refuse. */
    static Recipe checked(Message message) {
        try {
            Recipe made = new Recipe(message.parts().get("recipe").get("recipe"));
            JsonNode examples = message.parts().get("recipe").get("examples"), names = message.trunk().get("features").get("names");
            for (int index = 0; index < examples.size(); index++) {
                double[] columns = made.columns(examples.get(index).get("event"));
                Message.must(columns.length == names.size(), "the part 'recipe' makes " + columns.length + " columns of " + names.size() + " features");
                for (int i = 0; i < columns.length; i++) {
                    String name = names.get(i).asText();
                    double expected = examples.get(index).get("columns").path(name).asDouble(0);
                    Message.must(Math.abs(columns[i] - expected) <= 1e-12 * Math.max(1, Math.abs(expected)),
                        "the part 'recipe', example " + index + ": " + name + " is " + columns[i] + " here, " + expected + " in the message");
                }
            }
            return made;
        } catch (RefusedMessage refusal) {
            throw refusal;
        } catch (RuntimeException fault) { // its features are of any shape
            throw new RefusedMessage("the part 'recipe' cannot be evaluated: " + fault);
        }
    }

    private static Part ofFields(List<JsonNode> paths, JsonNode missing, Kind kind, int width) {
        return (event, before) -> {
            List<JsonNode> values = new ArrayList<>();
            for (JsonNode path : paths) {
                JsonNode value = follow(event, path);
                if (value.isMissingNode() && missing.has("constant")) value = missing.get("constant");
                if (value.isMissingNode() && width == kind.width) throw new InvalidFeatures(shown(path) + " is missing");
                values.add(value);
            }
            boolean gone = values.stream().anyMatch(JsonNode::isMissingNode);
            double[] own = gone && paths.size() == 1 ? null : kind.of.apply(values); // of two fields the one that is there must be right
            return gone ? oneOf(width, width - 1, 1) : Arrays.copyOf(own, width);
        };
    }

    static Kind kind(JsonNode feature, JsonNode zones) {
        String path = shown(feature.get("field")), wanted = wanted(feature);
        switch (feature.get("as").asText()) {
            case "number":
                double[] clip = Values.array(feature.path("clip")), borders = Values.array(feature.path("buckets"));
                double unit = feature.path("unit").asDouble(1);
                boolean log1p = feature.path("log1p").asBoolean();
                UnaryOperator<JsonNode> notation = notation(feature);
                return new Kind(borders.length + 1, values -> {
                    double v = number(path, notation.apply(values.get(0)), wanted);
                    double x = (clip.length > 0 ? Math.min(Math.max(v, clip[0]), clip[1]) : v) / unit;
                    if (borders.length > 0) return oneOf(borders.length + 1, (int) Arrays.stream(borders).filter(border -> x >= border).count(), 1);
                    return new double[] {log1p ? Math.copySign(Math.log1p(Math.abs(x)), x) : x};
                });
            case "category":
                Map<String, Integer> places = new HashMap<>();
                feature.get("values").forEach(value -> places.put(value.asText(), places.size()));
                int others = feature.get("values").size();
                return new Kind(others + 1, values -> oneOf(others + 1, places.getOrDefault(text(path, values.get(0), wanted), others), 1));
            case "hash":
                String seed = feature.path("seed").asText("0");
                int bits = feature.get("bits").asInt(), width = 1 << bits;
                Message.must(bits >= 1 && bits <= MOST_BITS, "the part 'recipe' hashes into 2^" + bits + " columns");
                return new Kind(width, values -> {
                    byte[] digest = Values.digest((seed + ":" + text(path, values.get(0), wanted)).getBytes(StandardCharsets.UTF_8));
                    return oneOf(width, ByteBuffer.wrap(digest).getInt() & (width - 1), digest[4] % 2 == 0 ? 1 : -1);
                });
            case "flag":
                return new Kind(1, values -> {
                    JsonNode value = values.get(0);
                    double flag = value.isBoolean() ? value.booleanValue() ? 1 : 0 : value.isNumber() ? value.doubleValue() + 0.0 : -1;
                    if (flag != 0 && flag != 1) throw Values.wrong(path, value, wanted);
                    return new double[] {flag};
                });
            case "time":
                List<String> parts = Values.stream(feature.get("parts")).map(JsonNode::asText).toList();
                String format = feature.path("format").asText("iso8601"), zone = feature.path("zone").asText("UTC"), since = shown(feature.path("since"));
                long[][] table = zone.equals("UTC") ? new long[][] {{0, 0}} : Model.JSON.convertValue(zones.get(zone), long[][].class);
                return new Kind(parts.stream().mapToInt(part -> part.equals("age") ? 1 : 2).sum(), values -> {
                    long time = micros(path, values.get(0), format, table), seconds = Math.floorDiv(time, MICROS);
                    return parts.stream().flatMapToDouble(part -> Arrays.stream(part.equals("age")
                        ? new double[] {(time - micros(since, values.get(1), format, table)) / (double) (DAY * MICROS)}
                        : wave(part, seconds + offset(table, seconds)))).toArray();
                });
            default:
                throw new IllegalStateException("the recipe has a feature of the unknown kind " + feature.get("as"));
        }
    }

    /** Return what reads values by a number's option parse; a value that writes no number stays as it is. */
    static UnaryOperator<JsonNode> notation(JsonNode feature) {
        if (!feature.path("parse").asText().equals("text")) return value -> value;
        String decimal = feature.path("decimal").asText("."), thousands = feature.path("thousands").asText(""), currency = feature.path("currency").asText("");
        String group = thousands.equals(" ") ? "[ \u00a0\u2009\u202f]" : thousands.equals("'") ? "['\u2019]" : Pattern.quote(thousands);
        String figures = thousands.isEmpty() ? "[0-9]+" : "[0-9]+|[0-9]{1,3}(?:" + group + "[0-9]{3})+";
        String mark = currency.isEmpty() ? "(?!)" : Pattern.quote(currency), sign = "(?:(" + SIGN + ")" + SPACE + ")?";
        Pattern form = Pattern.compile(SPACE + sign + "(?:(" + mark + ")" + SPACE + ")?" + sign + "(" + figures + ")?(?:" + Pattern.quote(decimal)
            + "([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?(?:" + SPACE + "(%))?(?:" + SPACE + "(" + mark + "))?" + SPACE);
        return value -> {
            Matcher found = form.matcher(value.isTextual() && value.textValue().length() <= 64 ? value.textValue() : "");
            if (!found.matches()) return value;
            String before = found.group(1), first = found.group(2), behind = found.group(3), whole = found.group(4), fraction = found.group(5);
            String exponent = found.group(6), percent = found.group(7), last = found.group(8);
            if ((whole == null && fraction == null) || (before != null && behind != null) || (first != null && last != null)
                || (percent != null && (exponent != null || first != null || last != null))) return value;
            String own = Objects.requireNonNullElse(before, Objects.requireNonNullElse(behind, "+")).equals("+") ? "" : "-";
            String figure = (whole == null ? "0" : whole.replaceAll("[^0-9]", "")) + "." + (fraction == null ? "0" : fraction);
            return DoubleNode.valueOf(Double.parseDouble(own + figure + "e" + (percent != null ? "-2" : exponent == null ? "0" : exponent)));
        };
    }

    /** Say what a value of a feature has to be. */
    static String wanted(JsonNode feature) {
        String thousands = feature.path("thousands").asText(""), currency = feature.path("currency").asText("");
        if (!feature.path("parse").asText("").equals("text")) return WANTED.get(feature.get("as").asText());
        return "a number, or a text that writes one with the decimal separator " + Values.quoted(feature.path("decimal").asText("."))
            + (thousands.isEmpty() ? ", no thousands separator" : ", the thousands separator " + Values.quoted(thousands))
            + (currency.isEmpty() ? " and no currency" : " and the currency " + Values.quoted(currency));
    }

    /** Return what stands under a path; a missing node where it, or what should hold it, is absent, null or not available. */
    static JsonNode follow(JsonNode event, JsonNode path) {
        JsonNode value = event;
        List<JsonNode> outer = new ArrayList<>();
        for (JsonNode step : path) {
            if (value.isMissingNode() || value.isNull() || UNAVAILABLE.equals(value.textValue())) return MissingNode.getInstance();
            if (value.isPojo()) return value;
            if (step.isNumber() ? !value.isArray() : !value.isObject()) {
                String found = NAMES.getOrDefault(value.getNodeType(), "a value");
                throw Values.unread(shown(path), shown(outer) + " is " + found + ", not " + (step.isNumber() ? "an array" : "an object"));
            }
            value = step.isNumber() ? value.path(step.intValue()) : value.path(step.asText());
            outer.add(step);
        }
        return value.isNull() || UNAVAILABLE.equals(value.textValue()) ? MissingNode.getInstance() : value;
    }

    static double number(String path, JsonNode value, String wanted) {
        if (!value.isNumber()) throw Values.wrong(path, value, wanted);
        double number = Values.real(value);
        if (!(Math.abs(number) <= 1e100)) throw new InvalidFeatures(path + " is " + Values.shown(value) + BEYOND);
        return number;
    }

    /** Return the text by which a category or a hash compares a value. */
    static String text(String path, JsonNode value, String wanted) {
        if (value.isTextual()) return value.textValue();
        if (value.isBoolean()) return value.asText();
        double number = value.isNumber() ? Values.real(value) : Double.NaN;
        boolean whole = value.isIntegralNumber() || number == Math.rint(number) && !Double.isInfinite(number);
        if (!whole) throw Values.wrong(path, value, wanted);
        if (!(Math.abs(number) <= LARGEST_EXACT)) throw Values.wrong(path, value, "an integer of at most 53 bits: send such an identifier as text");
        return Long.toString((long) number);
    }

    /** Return a zone's offset from UTC, in seconds, at a time in seconds. */
    static long offset(long[][] table, long seconds) {
        long found = table[0][1];
        for (long[] since : table) if (since[0] <= seconds) found = since[1];
        return found;
    }

    /** Return a time in microseconds since the epoch; 0 if it is missing. */
    static long micros(String path, JsonNode value, String format, long[][] table) {
        if (value.isMissingNode()) return 0;
        if (value instanceof POJONode held && held.getPojo() instanceof Instant time) {
            if (YEARS.isValidValue(time.getEpochSecond())) return time.getEpochSecond() * MICROS + time.getNano() / 1_000;
            throw Values.wrong(path, TextNode.valueOf(time.toString()), WANTED.get("time"));
        }
        if (!format.equals("iso8601")) {
            double found = Math.floor(number(path, value, "a number") * (format.equals("s") ? 1e6 : format.equals("ms") ? 1e3 : 1));
            if (found >= FIRST * MICROS && found <= END * MICROS - 1) return (long) found;
            throw new InvalidFeatures(path + " is " + Values.shown(value) + BEYOND);
        }
        Matcher found = ISO.matcher(value.isTextual() ? value.textValue() : "");
        try {
            if (!found.matches()) throw Values.wrong(path, value, WANTED.get("time"));
            String clock = found.group(2) == null ? "00:00" : found.group(2).replace(',', '.');
            LocalDateTime local = LocalDateTime.parse(found.group(1) + "T" + clock);
            long seconds = local.toEpochSecond(ZoneOffset.UTC);
            if (found.group(4) != null) {
                seconds -= (Integer.parseInt(found.group(5)) * 3600L + Integer.parseInt(found.group(6)) * 60L) * (found.group(4).equals("-") ? -1 : 1);
                if (!YEARS.isValidValue(seconds)) throw new DateTimeException("beyond the calendar");
            } else if (found.group(3) == null) seconds -= offset(table, seconds - offset(table, seconds));
            return seconds * MICROS + local.getNano() / 1_000;
        } catch (DateTimeException impossible) {
            throw Values.wrong(path, value, WANTED.get("time"));
        }
    }

    /** Return sine and cosine of a part of the time that a zone's clocks show, in seconds. */
    static double[] wave(String part, long local) {
        long days = Math.floorDiv(local, DAY);
        double turn = switch (part) {
            case "hour" -> 2 * Math.PI * Math.floorMod(Math.floorDiv(local, 60L), 1440L) / 1440;
            case "weekday" -> 2 * Math.PI * Math.floorMod(days + 3, 7L) / 7;
            case "month" -> 2 * Math.PI * (LocalDate.ofEpochDay(days).getMonthValue() - 1) / 12;
            default -> throw new IllegalStateException("the recipe has the unknown part " + part + " of a time");
        };
        return new double[] {Math.sin(turn), Math.cos(turn)};
    }

    static double[] oneOf(int width, int at, double value) {
        double[] made = new double[width];
        made[at] = value;
        return made;
    }
}
