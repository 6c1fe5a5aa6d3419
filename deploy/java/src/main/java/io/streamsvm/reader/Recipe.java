// What a version's recipe makes of raw events: the part `recipe` of a message.
package io.streamsvm.reader;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.DoubleNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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

    private final Map<String, Part> parts = new LinkedHashMap<>();
    private final List<String> fields = new ArrayList<>();

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

    static Part ofFields(JsonNode feature, JsonNode zones) {
        List<JsonNode> paths = new ArrayList<>(List.of(feature.get("field")));
        if (feature.hasNonNull("since")) paths.add(feature.get("since"));
        Kind kind = kind(feature, zones);
        JsonNode missing = feature.path("missing");
        boolean indicates = missing.asText().equals("indicator"), isTime = feature.get("as").asText().equals("time");
        return (event, before) -> {
            List<JsonNode> values = paths.stream().map(path -> follow(event, path)).toList();
            boolean gone = values.stream().anyMatch(JsonNode::isMissingNode);
            if (gone && !indicates && !missing.has("constant")) throw rejected(paths + " is missing");
            if (gone && indicates) {
                if (isTime) // the field that is there must still be a time
                    values.stream().filter(value -> !value.isMissingNode()).forEach(value -> micros(value, format(feature), zone(feature, zones)));
                double[] own = new double[width(feature) + 1];
                own[own.length - 1] = 1;
                return own;
            }
            double[] own = kind.of(gone ? List.of(missing.get("constant")) : values);
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
        switch (feature.get("as").asText()) {
            case "number":
                double[] clip = array(feature.path("clip")), borders = array(feature.path("buckets"));
                double unit = feature.path("unit").asDouble(1);
                boolean log1p = feature.path("log1p").asBoolean();
                UnaryOperator<JsonNode> notation = notation(feature);
                return values -> {
                    JsonNode value = values.get(0);
                    double v = number(value.isNumber() ? value : notation.apply(value));
                    double x = (clip.length > 0 ? Math.min(Math.max(v, clip[0]), clip[1]) : v) / unit;
                    if (borders.length > 0) return oneOf(width, (int) Arrays.stream(borders).filter(border -> x >= border).count(), 1);
                    return new double[] {log1p ? Math.copySign(Math.log1p(Math.abs(x)), x) : x};
                };
            case "category":
                Map<String, Integer> places = new HashMap<>();
                feature.get("values").forEach(value -> places.put(value.asText(), places.size()));
                return values -> oneOf(width, places.getOrDefault(text(values.get(0)), width - 1), 1);
            case "hash":
                String seed = feature.path("seed").asText("0");
                return values -> {
                    byte[] digest = sha256(seed + ":" + text(values.get(0)));
                    return oneOf(width, ByteBuffer.wrap(digest).getInt() & (width - 1), digest[4] % 2 == 0 ? 1 : -1);
                };
            case "flag":
                return values -> {
                    JsonNode value = values.get(0);
                    if (value.isBoolean()) return new double[] {value.booleanValue() ? 1 : 0};
                    if (value.isNumber() && (value.doubleValue() == 0 || value.doubleValue() == 1)) return new double[] {value.doubleValue() + 0.0};
                    throw rejected(value + " is not true or false");
                };
            case "time":
                long[][] table = zone(feature, zones);
                return values -> {
                    double[] made = new double[width];
                    long time = micros(values.get(0), format(feature), table), seconds = Math.floorDiv(time, MICROS);
                    int at = 0;
                    for (JsonNode part : feature.get("parts")) {
                        double[] own = part.asText().equals("age")
                            ? new double[] {(time - micros(values.get(1), format(feature), table)) / (double) (DAY * MICROS)}
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

    /** Return what stands under a path; a missing node where it, or what should hold it, is absent, null or not available. */
    static JsonNode follow(JsonNode value, JsonNode path) {
        for (JsonNode step : path) {
            if (value.isMissingNode() || value.isNull() || UNAVAILABLE.equals(value.textValue())) return MissingNode.getInstance();
            if (step.isNumber() ? !value.isArray() : !value.isObject()) throw rejected(path + " cannot be read");
            value = step.isNumber() ? value.path(step.intValue()) : value.path(step.asText());
        }
        return value.isNull() || UNAVAILABLE.equals(value.textValue()) ? MissingNode.getInstance() : value;
    }

    static double number(JsonNode value) {
        if (!value.isNumber() || !(Math.abs(value.doubleValue()) <= 1e100)) throw rejected(value + " is not a number up to 1e100");
        return value.doubleValue();
    }

    /** Return the text by which a category or a hash compares a value. */
    static String text(JsonNode value) {
        if (value.isTextual()) return value.textValue();
        if (value.isBoolean()) return value.asText();
        if (value.isIntegralNumber() && value.bigIntegerValue().abs().compareTo(BigInteger.valueOf(LARGEST_EXACT)) <= 0) return value.bigIntegerValue().toString();
        if (value.isFloatingPointNumber() && Math.abs(value.doubleValue()) <= LARGEST_EXACT && value.doubleValue() == Math.rint(value.doubleValue()))
            return Long.toString((long) value.doubleValue());
        throw rejected(value + " is not text, an integer of 53 bits or a boolean");
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
    static long micros(JsonNode value, String format, long[][] table) {
        if (!format.equals("iso8601")) {
            double found = Math.floor(number(value) * (format.equals("s") ? 1e6 : format.equals("ms") ? 1e3 : 1));
            if (!(found >= FIRST * MICROS && found <= END * MICROS - 1)) throw rejected(value + " is out of range");
            return (long) found;
        }
        Matcher found = ISO.matcher(value.isTextual() ? value.textValue() : "");
        if (!found.matches()) throw rejected(value + " is not a time");
        long seconds;
        try {
            int year = figure(found, 1);
            if (year == 0) throw new DateTimeException("there is no year 0");
            seconds = LocalDateTime.of(year, figure(found, 2), figure(found, 3), figure(found, 4), figure(found, 5), figure(found, 6))
                .toEpochSecond(ZoneOffset.UTC);
        } catch (DateTimeException impossible) {
            throw rejected(value + " is not a time");
        }
        String fraction = found.group(7) == null ? "" : found.group(7);
        long rest = Long.parseLong((fraction + "000000").substring(0, 6));
        if (found.group(9) != null) {
            seconds -= (found.group(9).equals("-") ? -1 : 1) * (figure(found, 10) * 3600L + figure(found, 11) * 60L);
            if (seconds < FIRST || seconds >= END) throw rejected(value + " is out of range");
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

    static InvalidFeatures rejected(String what) {
        return new InvalidFeatures(what);
    }
}
