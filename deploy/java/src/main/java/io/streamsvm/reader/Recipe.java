// What a version's recipe makes of raw events: the part `recipe` of a message.
package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.*;
import java.util.*;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;

/** Makes the columns of raw events. Thread-safe: nothing of it changes once it is made. */
final class Recipe {
    static final long MICROS = 1_000_000, DAY = 86_400, FIRST = -62_135_596_800L, END = 253_402_300_800L;
    /** What Debezium writes for a column that an update of its row did not bring along: a missing value. */
    static final String UNAVAILABLE = "__debezium_unavailable_value";
    static final String SPACE = "[ \\t\u00a0\u2009\u202f]*", SIGN = "[+\\-\u2212]";
    static final long LARGEST_EXACT = (1L << 53) - 1;
    /** Most bits of a hash, as in Python; and most columns: a message may name any number, and each is made for an event. */
    static final int MOST_BITS = 10, MOST_COLUMNS = 1 << 20;
    static final Pattern ISO = Pattern.compile("(\\d{4})-(\\d\\d)-(\\d\\d)(?:[T ]([01]\\d|2[0-3]):([0-5]\\d)"
        + "(?::([0-5]\\d)(?:[.,](\\d{1,9}))?)?(?:(Z)|([+-])([01]\\d|2[0-3]):?([0-5]\\d))?)?");

    /** Makes the columns of one feature, of an event and of the columns of the features before it. */
    interface Part { double[] of(JsonNode event, Map<String, double[]> before); }

    /** Makes the columns of one feature, of the values of its fields. */
    interface Kind { double[] of(List<JsonNode> values); }

    /** What a feature needs a value for. */
    private static final Map<String, String> WANTED = Map.of("number", "a number", "flag", "true or false",
        "category", "text, an integer or a boolean", "hash", "text, an integer or a boolean", "time", "a time such as 2026-01-31T12:00:00Z");

    private final Map<String, Part> parts = new LinkedHashMap<>();
    private final List<String> fields = new ArrayList<>();
    private final Map<List<String>, Boolean> needed = new LinkedHashMap<>();

    Recipe(JsonNode recipe) {
        Map<String, String> named = new HashMap<>();
        Map<String, Integer> widths = new HashMap<>();
        for (JsonNode feature : recipe.get("features")) {
            String name = feature.get("name").asText();
            boolean crosses = feature.get("as").asText().equals("cross");
            if (crosses) {
                String first = feature.get("of").get(0).asText(), second = feature.get("of").get(1).asText();
                named.put(name, named.get(first) + " x " + named.get(second));
                widths.put(name, Math.multiplyExact(widths.get(first), widths.get(second)));
            } else {
                named.put(name, shown(feature.get("field")));
                widths.put(name, width(feature) + (feature.path("missing").asText().equals("indicator") ? 1 : 0));
                boolean required = !feature.path("missing").asText().equals("indicator") && !feature.path("missing").has("constant");
                for (JsonNode path : paths(feature)) needed.merge(List.of(shown(path), feature.get("as").asText()), required, Boolean::logicalOr);
            }
            Message.must(fields.size() + (long) widths.get(name) <= MOST_COLUMNS, "the part 'recipe' makes more than " + MOST_COLUMNS + " columns");
            parts.put(name, crosses ? crossed(feature) : ofFields(feature, recipe.path("zones")));
            fields.addAll(Collections.nCopies(widths.get(name), named.get(name)));
        }
    }

    /** Return the field of each column, or both fields of a cross. */
    List<String> fields() {
        return List.copyOf(fields);
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
    static String shown(JsonNode path) {
        StringBuilder text = new StringBuilder();
        for (JsonNode step : path) text.append(step.isInt() ? "[" + step.asInt() + "]" : "." + step.asText());
        return text.length() > 0 && text.charAt(0) == '.' ? text.substring(1) : text.toString();
    }

    /** Return the recipe of a message, which makes of the message's examples the columns that they should have; or refuse. */
    static Recipe checked(Message message) {
        try {
            Recipe features = new Recipe(message.part("recipe").get("recipe"));
            List<String> names = new ArrayList<>();
            message.get("features").get("names").forEach(name -> names.add(name.asText()));
            int index = 0;
            for (JsonNode example : message.part("recipe").get("examples")) features.check(index++, example, names);
            return features;
        } catch (RefusedMessage refusal) {
            throw refusal;
        } catch (RuntimeException fault) { // its features are of any shape
            throw new RefusedMessage("the part 'recipe' cannot be evaluated: " + fault);
        }
    }

    private void check(int index, JsonNode example, List<String> names) {
        double[] made = columns(example.get("event"));
        Message.must(made.length == names.size(), "the part 'recipe' makes " + made.length + " columns of " + names.size() + " features");
        for (int i = 0; i < made.length; i++) {
            double expected = example.get("columns").path(names.get(i)).asDouble(0);
            Message.must(Math.abs(made[i] - expected) <= 1e-12 * Math.max(1, Math.abs(expected)),
                "the part 'recipe', example " + index + ": " + names.get(i) + " is " + made[i] + " here, " + expected + " in the message");
        }
    }

    static Part crossed(JsonNode feature) {
        String first = feature.get("of").get(0).asText(), second = feature.get("of").get(1).asText();
        return (event, before) -> Arrays.stream(before.get(first))
            .flatMap(x -> Arrays.stream(before.get(second)).map(z -> x * z)).toArray();
    }

    static List<JsonNode> paths(JsonNode feature) {
        return feature.hasNonNull("since") ? List.of(feature.get("field"), feature.get("since")) : List.of(feature.get("field"));
    }

    static Part ofFields(JsonNode feature, JsonNode zones) {
        List<JsonNode> paths = paths(feature);
        Kind kind = kind(feature, zones);
        JsonNode missing = feature.path("missing");
        boolean indicates = missing.asText().equals("indicator"), isTime = feature.get("as").asText().equals("time");
        return (event, before) -> {
            List<JsonNode> values = paths.stream().map(path -> follow(event, path)).toList();
            boolean gone = values.stream().anyMatch(JsonNode::isMissingNode);
            for (int i = 0; gone && !indicates && !missing.has("constant"); i++)
                if (values.get(i).isMissingNode()) throw new InvalidFeatures(shown(paths.get(i)) + " is missing");
            if (gone && indicates) {
                for (int i = 0; isTime && i < values.size(); i++) // the field that is there must still be a time
                    if (!values.get(i).isMissingNode()) micros(shown(paths.get(i)), values.get(i), format(feature), zone(feature, zones));
                double[] own = new double[width(feature) + 1];
                own[own.length - 1] = 1;
                return own;
            }
            double[] own = kind.of(values.stream().map(value -> value.isMissingNode() ? missing.get("constant") : value).toList());
            return indicates ? Arrays.copyOf(own, own.length + 1) : own;
        };
    }

    static int width(JsonNode feature) {
        return switch (feature.get("as").asText()) {
            case "number" -> feature.path("buckets").size() + 1;
            case "category" -> feature.get("values").size() + 1;
            case "hash" -> 1 << bits(feature.get("bits").asInt());
            case "time" -> IntStream.range(0, feature.get("parts").size())
                .map(i -> feature.get("parts").get(i).asText().equals("age") ? 1 : 2).sum();
            default -> 1;
        };
    }

    static int bits(int bits) {
        Message.must(bits >= 1 && bits <= MOST_BITS, "the part 'recipe' hashes into 2^" + bits + " columns");
        return bits;
    }

    static Kind kind(JsonNode feature, JsonNode zones) {
        int width = width(feature);
        String path = shown(feature.get("field")), as = feature.get("as").asText(), wanted = wanted(feature);
        switch (as) {
            case "number":
                double[] clip = array(feature.path("clip")), borders = array(feature.path("buckets"));
                double unit = feature.path("unit").asDouble(1);
                boolean log1p = feature.path("log1p").asBoolean();
                UnaryOperator<JsonNode> notation = notation(feature);
                return values -> {
                    JsonNode value = values.get(0);
                    double v = number(path, value.isNumber() ? value : notation.apply(value), wanted);
                    double x = (clip.length > 0 ? Math.min(Math.max(v, clip[0]), clip[1]) : v) / unit;
                    if (borders.length > 0) return oneOf(width, (int) Arrays.stream(borders).filter(border -> x >= border).count(), 1);
                    return new double[] {log1p ? Math.copySign(Math.log1p(Math.abs(x)), x) : x};
                };
            case "category":
                Map<String, Integer> places = new HashMap<>();
                feature.get("values").forEach(value -> places.put(value.asText(), places.size()));
                return values -> oneOf(width, places.getOrDefault(text(path, values.get(0), wanted), width - 1), 1);
            case "hash":
                String seed = feature.path("seed").asText("0");
                return values -> {
                    byte[] digest = sha256(seed + ":" + text(path, values.get(0), wanted));
                    return oneOf(width, ByteBuffer.wrap(digest).getInt() & (width - 1), digest[4] % 2 == 0 ? 1 : -1);
                };
            case "flag":
                return values -> {
                    JsonNode value = values.get(0);
                    if (value.isBoolean()) return new double[] {value.booleanValue() ? 1 : 0};
                    if (value.isNumber() && (value.doubleValue() == 0 || value.doubleValue() == 1)) return new double[] {value.doubleValue() + 0.0};
                    throw Values.wrong(path, value, wanted);
                };
            case "time":
                long[][] table = zone(feature, zones);
                return values -> {
                    double[] made = new double[width];
                    long time = micros(path, values.get(0), format(feature), table), seconds = Math.floorDiv(time, MICROS);
                    int at = 0;
                    for (JsonNode part : feature.get("parts")) {
                        double[] own = part.asText().equals("age")
                            ? new double[] {(time - micros(shown(feature.get("since")), values.get(1), format(feature), table)) / (double) (DAY * MICROS)}
                            : wave(part.asText(), seconds + offset(table, seconds));
                        for (double value : own) made[at++] = value;
                    }
                    return made;
                };
            default:
                throw new IllegalStateException("the recipe has a feature of the unknown kind " + feature.get("as"));
        }
    }

    /** Return what reads values by a number's option parse; a value that writes no number stays as it is. */
    static UnaryOperator<JsonNode> notation(JsonNode feature) {
        String parse = feature.path("parse").asText("");
        if (parse.equals("text")) {
            String decimal = feature.path("decimal").asText("."), thousands = feature.path("thousands").asText(""), currency = feature.path("currency").asText("");
            String group = thousands.equals(" ") ? "[ \u00a0\u2009\u202f]" : thousands.equals("'") ? "['\u2019]" : Pattern.quote(thousands);
            String figures = thousands.isEmpty() ? "[0-9]+" : "[0-9]+|[0-9]{1,3}(?:" + group + "[0-9]{3})+";
            String mark = currency.isEmpty() ? "(?!)" : Pattern.quote(currency);
            Pattern form = Pattern.compile(SPACE + "(?:(" + SIGN + ")" + SPACE + ")?(?:(" + mark + ")" + SPACE + ")?(?:(" + SIGN + ")" + SPACE + ")?("
                + figures + ")?(?:" + Pattern.quote(decimal) + "([0-9]+))?(?:[eE]([+-]?[0-9]{1,3}))?(?:" + SPACE + "(%))?(?:" + SPACE + "(" + mark + "))?" + SPACE);
            return value -> {
                Matcher found = form.matcher(value.isTextual() && value.textValue().length() <= 64 ? value.textValue() : "");
                if (!found.matches()) return value;
                String before = found.group(1), first = found.group(2), behind = found.group(3), whole = found.group(4), fraction = found.group(5);
                String exponent = found.group(6), percent = found.group(7), last = found.group(8);
                if ((whole == null && fraction == null) || (before != null && behind != null) || (first != null && last != null)
                    || (percent != null && (exponent != null || first != null || last != null))) return value;
                String sign = before != null ? before : behind != null ? behind : "+";
                return DoubleNode.valueOf(Double.parseDouble((sign.equals("+") ? "" : "-") + (whole == null ? "0" : whole.replaceAll("[^0-9]", ""))
                    + "." + (fraction == null ? "0" : fraction) + "e" + (percent != null ? "-2" : exponent == null ? "0" : exponent)));
            };
        }
        return value -> value;
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
        StringBuilder outer = new StringBuilder();
        for (JsonNode step : path) {
            if (value.isMissingNode() || value.isNull() || UNAVAILABLE.equals(value.textValue())) return MissingNode.getInstance();
            if (value.isPojo()) return value;
            if (step.isNumber() ? !value.isArray() : !value.isObject())
                return new POJONode(new Values.Unread(outer.substring(1) + " is " + (value.isObject() ? "an object" : value.isArray() ? "an array"
                    : value.isTextual() ? "text" : value.isBoolean() ? "a boolean" : value.isNumber() ? "a number" : "a value")
                    + ", not " + (step.isNumber() ? "an array" : "an object")));
            value = step.isNumber() ? value.path(step.intValue()) : value.path(step.asText());
            outer.append(step.isNumber() ? "[" + step.asInt() + "]" : "." + step.asText());
        }
        return value.isNull() || UNAVAILABLE.equals(value.textValue()) ? MissingNode.getInstance() : value;
    }

    static double number(String path, JsonNode value, String wanted) {
        if (!value.isNumber()) throw Values.wrong(path, value, wanted);
        double number = Values.real(value);
        if (!(Math.abs(number) <= 1e100)) throw beyond(path, value);
        return number;
    }

    private static InvalidFeatures beyond(String path, JsonNode value) {
        return new InvalidFeatures(path + " is " + Values.shown(value) + ", beyond what can be learned");
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

    static long[][] zone(JsonNode feature, JsonNode zones) {
        String name = feature.path("zone").asText("UTC");
        return name.equals("UTC") ? new long[][] {{0, 0}} : Model.JSON.convertValue(zones.get(name), long[][].class);
    }

    static String format(JsonNode feature) {
        return feature.path("format").asText("iso8601");
    }

    /** Return a zone's offset from UTC, in seconds, at a time in seconds. */
    static long offset(long[][] table, long seconds) {
        long found = table[0][1];
        for (long[] since : table) if (since[0] <= seconds) found = since[1];
        return found;
    }

    /** Return a time in microseconds since the epoch. */
    static long micros(String path, JsonNode value, String format, long[][] table) {
        if (value instanceof POJONode held && held.getPojo() instanceof Instant time) {
            if (time.getEpochSecond() < FIRST || time.getEpochSecond() >= END) throw Values.wrong(path, TextNode.valueOf(time.toString()), WANTED.get("time"));
            return time.getEpochSecond() * MICROS + time.getNano() / 1_000;
        }
        if (!format.equals("iso8601")) {
            double found = Math.floor(number(path, value, "a number") * (format.equals("s") ? 1e6 : format.equals("ms") ? 1e3 : 1));
            if (!(found >= FIRST * MICROS && found <= END * MICROS - 1)) throw beyond(path, value);
            return (long) found;
        }
        Matcher found = ISO.matcher(value.isTextual() ? value.textValue() : "");
        if (!found.matches()) throw Values.wrong(path, value, WANTED.get("time"));
        long seconds;
        try {
            int year = figure(found, 1);
            if (year == 0) throw new DateTimeException("there is no year 0");
            seconds = LocalDateTime.of(year, figure(found, 2), figure(found, 3), figure(found, 4), figure(found, 5), figure(found, 6))
                .toEpochSecond(ZoneOffset.UTC);
        } catch (DateTimeException impossible) {
            throw Values.wrong(path, value, WANTED.get("time"));
        }
        String fraction = found.group(7) == null ? "" : found.group(7);
        long rest = Long.parseLong((fraction + "000000").substring(0, 6));
        if (found.group(9) != null) {
            seconds -= (found.group(9).equals("-") ? -1 : 1) * (figure(found, 10) * 3600L + figure(found, 11) * 60L);
            if (seconds < FIRST || seconds >= END) throw Values.wrong(path, value, WANTED.get("time"));
        } else if (found.group(8) == null) {
            seconds -= offset(table, seconds - offset(table, seconds));
        }
        return seconds * MICROS + rest;
    }

    static int figure(Matcher found, int group) {
        return found.group(group) == null ? 0 : Integer.parseInt(found.group(group));
    }

    /** Return sine and cosine of a part of the time that a zone's clocks show, in seconds. */
    static double[] wave(String part, long local) {
        long step, steps;
        switch (part) {
            case "hour": step = Math.floorMod(Math.floorDiv(local, 60L), 1440L); steps = 1440; break;
            case "weekday": step = Math.floorMod(Math.floorDiv(local, DAY) + 3, 7L); steps = 7; break;
            case "month": step = LocalDate.ofEpochDay(Math.floorDiv(local, DAY)).getMonthValue() - 1; steps = 12; break;
            default: throw new IllegalStateException("the recipe has the unknown part " + part + " of a time");
        }
        double angle = 2 * Math.PI * step / steps;
        return new double[] {Math.sin(angle), Math.cos(angle)};
    }

    static double[] oneOf(int width, int at, double value) {
        double[] made = new double[width];
        made[at] = value;
        return made;
    }

    static double[] array(JsonNode values) {
        return IntStream.range(0, values.size()).mapToDouble(i -> values.get(i).asDouble()).toArray();
    }

    static byte[] sha256(String text) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
        } catch (NoSuchAlgorithmException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
