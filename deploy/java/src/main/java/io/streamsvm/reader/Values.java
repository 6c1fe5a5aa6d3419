package io.streamsvm.reader;

import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.IOException;
import java.lang.reflect.Array;
import java.math.*;
import java.nio.charset.StandardCharsets;
import java.security.*;
import java.time.*;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** Values of Java and of records as those of JSON, and values of JSON as text. What JSON cannot have is kept as it is, in a POJONode. */
final class Values {
    private static final ObjectReader READER = Model.JSON.reader().with(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);
    private static final int DEEPEST = 100, SHOWN = 60, MOST_BITS = 4_096;

    private Values() {}

    static JsonNode parsed(byte[] json) {
        try {
            JsonNode read = READER.readTree(json);
            if (read.isMissingNode()) throw new InvalidFeatures("the text is not JSON: it is empty");
            return read;
        } catch (IOException fault) {
            throw new InvalidFeatures("the text is not JSON: " + fault.getMessage());
        }
    }

    static JsonNode of(Object value, int depth) {
        if (depth > DEEPEST) throw new InvalidFeatures("the values nest deeper than " + DEEPEST);
        if (value == null) return NullNode.instance;
        if (value instanceof JsonNode node) return node;
        if (value instanceof CharSequence || value instanceof Character || value instanceof UUID
            || value instanceof LocalDate || value instanceof LocalDateTime) return TextNode.valueOf(value.toString());
        if (value instanceof Enum<?> constant) return TextNode.valueOf(constant.name());
        if (value instanceof Boolean truth) return BooleanNode.valueOf(truth);
        if (value instanceof Float number) return DoubleNode.valueOf(Double.parseDouble(number.toString())); // as JSON writes it
        if (value instanceof Double || value instanceof BigDecimal) return DoubleNode.valueOf(((Number) value).doubleValue());
        if (value instanceof BigInteger number) return BigIntegerNode.valueOf(number);
        if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte)
            return LongNode.valueOf(((Number) value).longValue());
        if (value instanceof Optional<?> maybe) return of(maybe.orElse(null), depth);
        if (value instanceof OffsetDateTime time) return new POJONode(time.toInstant());
        if (value instanceof ZonedDateTime time) return new POJONode(time.toInstant());
        if (value instanceof Map<?, ?> map) {
            ObjectNode made = Model.JSON.createObjectNode();
            map.forEach((key, inner) -> made.set(String.valueOf(key), of(inner, depth + 1)));
            return made;
        }
        boolean isArray = value.getClass().isArray() && !(value instanceof byte[]);
        if (!isArray && !(value instanceof Collection)) return new POJONode(value);
        Stream<?> items = isArray ? IntStream.range(0, Array.getLength(value)).mapToObj(i -> Array.get(value, i)) : ((Collection<?>) value).stream();
        return Model.JSON.createArrayNode().addAll(items.map(item -> of(item, depth + 1)).toList());
    }

    static double[] array(JsonNode values) {
        return stream(values).mapToDouble(JsonNode::asDouble).toArray();
    }

    static Stream<JsonNode> stream(JsonNode values) {
        return StreamSupport.stream(values.spliterator(), false);
    }

    static byte[] digest(byte[] value) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(value);
        } catch (NoSuchAlgorithmException impossible) {
            throw new AssertionError(impossible);
        }
    }

    static String place(ConsumerRecord<?, ?> record) {
        return record.topic() + "[" + record.partition() + "]@" + record.offset();
    }

    /** Return the key of a record as text; empty where it has none. */
    static String key(ConsumerRecord<byte[], byte[]> record) {
        return record.key() == null ? "" : new String(record.key(), StandardCharsets.UTF_8);
    }

    /** Return the newest header of a name as text; null where there is none. */
    static String header(ConsumerRecord<?, ?> record, String name) {
        var header = record.headers().lastHeader(name);
        return header == null ? null : new String(header.value(), StandardCharsets.UTF_8);
    }

    /** Return a number; a float is what its text writes, so that 0.1f is 0.1. */
    static double real(JsonNode number) {
        return number.isFloat() ? Double.parseDouble(number.asText()) : number.doubleValue();
    }

    /** Return a label as Java has it: Long, Double, Boolean, String, or null. */
    static Object plain(JsonNode value) {
        if (value == null || value.isNull() || value.isMissingNode()) return null;
        if (value.isBoolean()) return value.booleanValue();
        return value.isIntegralNumber() ? (Object) value.longValue() : value.isNumber() ? (Object) real(value) : value.asText();
    }

    /** Say what a value is instead of what it has to be. */
    static InvalidFeatures wrong(String path, JsonNode value, String wanted) {
        if (!value.isPojo() && !value.isBinary()) return new InvalidFeatures(path + " is " + shown(value) + ", not " + wanted);
        Object held = value instanceof POJONode node ? node.getPojo() : new byte[0];
        return unread(path, held == null ? "it is null" : "it is a " + held.getClass().getTypeName());
    }

    static InvalidFeatures unread(String path, String why) {
        return new InvalidFeatures(path + " cannot be read: " + why);
    }

    /** Return a value as messages of all readers show it, shortened. */
    static String shown(JsonNode value) {
        if (value.isBoolean()) return value.asText();
        if (value.isBigInteger() && value.bigIntegerValue().bitLength() > MOST_BITS) return "an integer of thousands of digits";
        String text = repr(value);
        return text.codePointCount(0, text.length()) <= SHOWN ? text : text.substring(0, text.offsetByCodePoints(0, SHOWN - 3)) + "...";
    }

    private static String repr(JsonNode value) {
        if (value.isTextual()) return quoted(value.textValue());
        if (value.isBoolean()) return value.booleanValue() ? "True" : "False";
        if (value.isIntegralNumber()) return value.bigIntegerValue().toString();
        if (value.isNumber()) return repr(real(value));
        if (value.isArray()) return stream(value).map(Values::repr).collect(Collectors.joining(", ", "[", "]"));
        if (!value.isObject()) return value.isNull() ? "None" : value.toString();
        return value.properties().stream().map(one -> quoted(one.getKey()) + ": " + repr(one.getValue())).collect(Collectors.joining(", ", "{", "}"));
    }

    private static String repr(double value) {
        if (Double.isNaN(value)) return "nan";
        if (Double.isInfinite(value)) return value > 0 ? "inf" : "-inf";
        BigDecimal decimal = new BigDecimal(Double.toString(Math.abs(value))).stripTrailingZeros();
        String sign = Double.compare(value, 0.0) < 0 ? "-" : "", digits = decimal.unscaledValue().toString();
        int exponent = decimal.precision() - decimal.scale() - 1;
        if (value == 0 || exponent >= -4 && exponent < 16) {
            String plain = decimal.toPlainString();
            return sign + plain + (plain.contains(".") ? "" : ".0");
        }
        String mantissa = digits.length() == 1 ? digits : digits.charAt(0) + "." + digits.substring(1);
        return sign + mantissa + String.format("e%s%02d", exponent < 0 ? "-" : "+", Math.abs(exponent));
    }

    static String quoted(String text) {
        char quote = text.contains("'") && !text.contains("\"") ? '"' : '\'';
        StringBuilder made = new StringBuilder().append(quote);
        text.codePoints().forEach(c -> {
            int named = "\n\r\t\\".indexOf(c);
            boolean hidden = c != ' ' && Character.toString(c).matches("[\\p{C}\\p{Z}]");
            if (named >= 0 || c == quote) made.append('\\').append(named >= 0 ? "nrt\\".charAt(named) : quote);
            else if (hidden) made.append(String.format(c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c));
            else made.appendCodePoint(c);
        });
        return made.append(quote).toString();
    }

    /** Return names as messages list them: the first five, and how many more there are. */
    static String listed(Collection<String> names) {
        return names.stream().limit(5).map(Values::quoted).collect(Collectors.joining(", ")) + (names.size() > 5 ? " and " + (names.size() - 5) + " more" : "");
    }
}
