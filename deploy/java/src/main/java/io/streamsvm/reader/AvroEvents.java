package io.streamsvm.reader;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.time.*;
import java.time.temporal.ChronoUnit;
import java.util.*;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericFixed;
import org.apache.avro.generic.IndexedRecord;

/**
 * Records of Avro, generic or of generated classes, as the events that a trainer reads of the same bytes: decimals are numbers,
 * dates and times the numbers that Avro writes, enums texts, and a float is its exact value. The only class that needs Avro.
 */
public final class AvroEvents {
    private static final int MOST_BYTES = 64, MOST_SCALE = 100;

    private AvroEvents() {}

    /** Return a record as an event for {@link Model#score(Map)}, whether its logical types were converted or not. */
    public static Map<String, Object> of(IndexedRecord record) {
        Map<String, Object> event = new LinkedHashMap<>();
        for (Schema.Field field : record.getSchema().getFields()) event.put(field.name(), value(field.schema(), record.get(field.pos())));
        return event;
    }

    private static Object value(Schema schema, Object value) {
        if (value instanceof CharSequence || value instanceof Enum<?> || value instanceof UUID || value instanceof org.apache.avro.generic.GenericEnumSymbol<?>)
            return value.toString();
        if (value instanceof Float number) return number.doubleValue();
        if (value instanceof ByteBuffer bytes) return decimal(schema, raw(bytes), value);
        if (value instanceof GenericFixed fixed) return decimal(schema, fixed.bytes(), value);
        if (value instanceof Instant time) return count(schema, time);
        if (value instanceof LocalDateTime time) return count(schema, time.toInstant(ZoneOffset.UTC));
        if (value instanceof LocalDate date) return date.toEpochDay();
        if (value instanceof LocalTime time) return logical(schema).endsWith("-millis") ? time.toNanoOfDay() / 1_000_000 : time.toNanoOfDay() / 1_000;
        if (value instanceof IndexedRecord record) {
            Map<String, Object> event = of(record);
            boolean hasOwnScale = record.getSchema().getFullName().equals("io.debezium.data.VariableScaleDecimal");
            return hasOwnScale && event.get("scale") instanceof Integer scale && event.get("value") instanceof ByteBuffer bytes ? scaled(raw(bytes), scale, event) : event;
        }
        if (value instanceof Map<?, ?> map) {
            Map<String, Object> made = new LinkedHashMap<>();
            map.forEach((key, inner) -> made.put(key.toString(), value(only(schema, Schema.Type.MAP).getValueType(), inner)));
            return made;
        }
        if (value instanceof Collection<?> items) {
            List<Object> made = new ArrayList<>();
            items.forEach(item -> made.add(value(only(schema, Schema.Type.ARRAY).getElementType(), item)));
            return made;
        }
        return value;
    }

    private static byte[] raw(ByteBuffer bytes) {
        byte[] raw = new byte[bytes.remaining()];
        bytes.duplicate().get(raw);
        return raw;
    }

    private static Object decimal(Schema schema, byte[] raw, Object value) {
        for (Schema branch : branches(schema))
            if (branch.getLogicalType() instanceof LogicalTypes.Decimal type) return scaled(raw, type.getScale(), value);
        return value;
    }

    private static Object scaled(byte[] raw, int scale, Object otherwise) {
        boolean isRead = raw.length > 0 && raw.length <= MOST_BYTES && Math.abs(scale) <= MOST_SCALE;
        return isRead ? new BigDecimal(new BigInteger(raw), scale) : otherwise;
    }

    /** Return a time since the epoch in the unit of its logical type. */
    private static long count(Schema schema, Instant time) {
        String type = logical(schema);
        ChronoUnit unit = type.endsWith("-nanos") ? ChronoUnit.NANOS : type.endsWith("-micros") ? ChronoUnit.MICROS : ChronoUnit.MILLIS;
        return unit.between(Instant.EPOCH, time);
    }

    private static String logical(Schema schema) {
        return branches(schema).stream().map(branch -> branch.getProp("logicalType")).filter(name -> name != null && name.contains("time")).findFirst().orElse("");
    }

    private static Schema only(Schema schema, Schema.Type type) {
        return branches(schema).stream().filter(branch -> branch.getType() == type).findFirst().orElseThrow();
    }

    private static List<Schema> branches(Schema schema) {
        return schema.isUnion() ? schema.getTypes() : List.of(schema);
    }
}
